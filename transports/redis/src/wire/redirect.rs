//! `MOVED` and `ASK`. Pure. Source: Redis Cluster specification, "MOVED Redirection", "ASK redirection".

use leasehold::routing::slot::Slot;

use super::host_port::{parse_address, parse_number};
use crate::config::Address;

/// A redirect by a cluster node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) kind: RedirectKind,
    pub(crate) slot: Slot,
    pub(crate) to: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    /// The slot has moved, for all further requests.
    Moved,
    /// For this request only: the key has moved, the slot has not yet.
    Ask,
}

impl Redirect {
    /// Parses an error reply of the node at `asked`, such as `MOVED 3999 host:port`. An empty host, or `?` (the
    /// node should have a hostname, but none is set), is the host of `asked`.
    pub(crate) fn read(text: &str, asked: &Address) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "MOVED" => RedirectKind::Moved,
            "ASK" => RedirectKind::Ask,
            _ => return None,
        };
        let slot = Slot::from_number(parse_number(words.next()?)?)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = if ["", "?"].contains(&host) { &asked.host } else { host };
        Some(Self { kind, slot, to: parse_address(host, port)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::TestRng;

    fn read(text: &str) -> Option<Redirect> {
        Redirect::read(text, &Address::new("10.0.0.9", 7000))
    }

    #[test]
    fn both_kinds_are_read() {
        let moved = read("MOVED 3999 127.0.0.1:6381").unwrap();
        assert_eq!((moved.kind, moved.slot.number()), (RedirectKind::Moved, 3999));
        assert_eq!(moved.to, Address::new("127.0.0.1", 6381));
        let ask = read("ASK 0 ::1:6381").unwrap();
        assert_eq!((ask.kind, ask.to), (RedirectKind::Ask, Address::new("::1", 6381)));
    }

    #[test]
    fn a_host_that_the_node_does_not_know_is_its_own() {
        for text in ["MOVED 1 :6381", "MOVED 1 ?:6381", "ASK 1 ?:6381"] {
            assert_eq!(read(text).unwrap().to, Address::new("10.0.0.9", 6381), "{text}");
        }
    }

    #[test]
    fn damage_leads_nowhere_else() {
        let mut test_rng = TestRng::from_env();
        let mut followed = 0;
        for _ in 0..ROUNDS {
            let text = ["MOVED 3999 10.0.0.1:6381", "ASK 12 ?:6381"][test_rng.below(2)];
            let damaged = test_rng.damage(text);
            let Some(redirect) = read(&damaged) else { continue };
            followed += 1;
            let Address { host, port } = &redirect.to;
            let place = damaged.split(' ').nth(2).unwrap();
            let is_shown = place == format!("{host}:{port}");
            let is_left_out =
                host == "10.0.0.9" && [format!(":{port}"), format!("?:{port}")].contains(&place.into());
            assert!(
                !host.is_empty() && *port > 0 && (is_shown || is_left_out),
                "{redirect:?} in {damaged:?}"
            );
            assert!(
                damaged.contains(&format!(" {} ", redirect.slot.number())),
                "{redirect:?} in {damaged:?}"
            );
        }
        assert!(followed > ROUNDS / 20 && followed < ROUNDS, "{followed}");
    }

    const ROUNDS: usize = 5_000;

    #[test]
    fn nothing_else_is() {
        for text in
            ["MOVED", "MOVED 99999 a:1", "MOVED 1 a:0", "MOVED x a:1", "MOVEDX 1 a:1", "ERR MOVED 1 a:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
