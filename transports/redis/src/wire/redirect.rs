//! `MOVED` and `ASK`. Pure. Source: Redis Cluster specification, "MOVED Redirection", "ASK redirection".

use leasehold::routing::slot::Slot;

use crate::config::Address;

/// Where a node of a cluster sends a request to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) kind: RedirectKind,
    pub(crate) slot: Slot,
    pub(crate) to: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    /// From now on.
    Moved,
    /// This once: the key is there, the slot not yet.
    Ask,
}

impl Redirect {
    /// Reads an error reply of the node at `asked`: `MOVED 3999 host:port`. A host that is left out is the node's own.
    pub(crate) fn read(text: &str, asked: &Address) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "MOVED" => RedirectKind::Moved,
            "ASK" => RedirectKind::Ask,
            _ => return None,
        };
        let slot = Slot::from_number(words.next()?.parse().ok()?)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = if host.is_empty() { &asked.host } else { host };
        Some(Self { kind, slot, to: Address::new(host, port.parse().ok().filter(|port| *port > 0)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(read("MOVED 1 :6381").unwrap().to, Address::new("10.0.0.9", 6381));
    }

    #[test]
    fn nothing_else_is() {
        for text in
            ["MOVED", "MOVED 99999 a:1", "MOVED 1 a:0", "MOVED x a:1", "MOVEDX 1 a:1", "ERR MOVED 1 a:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
