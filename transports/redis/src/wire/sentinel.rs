//! The replies and messages of a sentinel: `SENTINEL MASTER`, `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL
//! SENTINELS`, `+switch-master`. Pure.

use std::time::Duration;

use fred::types::Resp3Frame as Frame;

use super::{host_port::parse_address, reply};
use crate::config::Address;

/// The master, according to one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MasterReport {
    pub(crate) address: Address,
    /// The configuration epoch, which rises with every failover.
    pub(crate) epoch: u64,
}

/// A failover, according to a sentinel's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) service: String,
    pub(crate) from: Address,
    pub(crate) to: Address,
}

/// A sentinel's settings for the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentinelSettings {
    /// How long the master must be silent to count as failed.
    pub(crate) down_after: Duration,
    /// How many sentinels must agree that it has failed.
    pub(crate) quorum: usize,
    /// How many other sentinels this one knows.
    pub(crate) others: usize,
}

impl SentinelSettings {
    /// Parses the reply to `SENTINEL MASTER`.
    pub(crate) fn read(frame: &Frame) -> Option<Self> {
        let number = |name| field(frame, name)?.parse::<u64>().ok();
        Some(Self {
            down_after: Duration::from_millis(number("down-after-milliseconds")?),
            quorum: usize::try_from(number("quorum")?).ok()?,
            others: usize::try_from(number("num-other-sentinels")?).ok()?,
        })
    }
}

/// Returns the number of sentinels, and how many of them must agree.
pub(crate) fn quorum(settings: &SentinelSettings) -> (usize, usize) {
    (settings.others + 1, settings.quorum)
}

impl MasterReport {
    /// Parses the reply to `SENTINEL MASTER`, in which names and values alternate, and the later reply to
    /// `GET-MASTER-ADDR-BY-NAME`. Both are needed: near the end of a failover the first one has the new epoch, but
    /// still the old address.
    pub(crate) fn read(master: &Frame, address: &Frame) -> Option<Self> {
        let [host, port] = reply::array(address)? else { return None };
        let address = parse_address(reply::text(host)?, reply::text(port)?)?;
        Some(Self { address, epoch: field(master, "config-epoch")?.parse().ok()? })
    }
}

/// Parses the reply to `SENTINEL SENTINELS`. Entries without an address are left out.
pub(crate) fn sentinels(frame: &Frame) -> Vec<Address> {
    reply::array(frame).unwrap_or_default().iter().filter_map(address).collect()
}

impl Switch {
    /// Parses the payload of `+switch-master`: `<name> <old ip> <old port> <new ip> <new port>`.
    pub(crate) fn read(payload: &str) -> Option<Self> {
        // Neither service names nor hosts contain blanks.
        let words: Vec<&str> = payload.split(' ').collect();
        let [service, from, from_port, to, to_port] = words.as_slice() else { return None };
        let (from, to) = (parse_address(from, from_port)?, parse_address(to, to_port)?);
        Some(Self { service: (*service).to_owned(), from, to })
    }
}

fn address(fields: &Frame) -> Option<Address> {
    parse_address(field(fields, "ip")?, field(fields, "port")?)
}

fn field<'a>(fields: &'a Frame, wanted: &str) -> Option<&'a str> {
    let mut pairs = reply::array(fields)?.chunks_exact(2);
    pairs.find_map(|pair| (reply::text(&pair[0]) == Some(wanted)).then(|| reply::text(&pair[1]))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(words: &[&'static str]) -> Frame {
        let text = |report: &&'static str| Frame::BlobString { data: (*report).into(), attributes: None };
        Frame::Array { data: words.iter().map(text).collect(), attributes: None }
    }

    #[test]
    fn the_master_is_read_with_its_epoch() {
        let master =
            fields(&["name", "m", "ip", "10.0.0.9", "port", "6379", "flags", "master", "config-epoch", "4"]);
        let address = fields(&["10.0.0.1", "6379"]);
        let report = MasterReport { address: Address::new("10.0.0.1", 6379), epoch: 4 };
        assert_eq!(MasterReport::read(&master, &address), Some(report));
        assert_eq!(MasterReport::read(&fields(&["ip", "10.0.0.1", "port", "6379"]), &address), None);
        assert_eq!(MasterReport::read(&master, &fields(&["10.0.0.1", "0"])), None);
        assert_eq!(MasterReport::read(&master, &fields(&["10.0.0.1"])), None);
    }

    #[test]
    fn sentinels_without_an_address_are_left_out() {
        let known = fields(&["name", "a", "ip", "10.0.0.1", "port", "26379"]);
        let frame = Frame::Array { data: vec![known, fields(&["name", "b"])], attributes: None };
        assert_eq!(sentinels(&frame), [Address::new("10.0.0.1", 26379)]);
    }

    #[test]
    fn a_switch_is_read() {
        let switch = Switch::read("m 10.0.0.1 6379 10.0.0.2 6380").unwrap();
        assert_eq!((switch.service.as_str(), switch.to), ("m", Address::new("10.0.0.2", 6380)));
        assert_eq!(Switch::read("m 10.0.0.1 6379 10.0.0.2"), None);
    }

    #[test]
    fn an_address_that_cannot_be_one_is_refused() {
        let master = fields(&["name", "m", "config-epoch", "4"]);
        for wrong in [["", "6379"], ["10.0.0.1", "0"], ["10.0.0.1", "+6379"], ["a b", "6379"], ["?", "6379"]]
        {
            assert_eq!(MasterReport::read(&master, &fields(&wrong)), None, "{wrong:?}");
            let [host, port] = wrong;
            assert_eq!(Switch::read(&format!("m {host} {port} 10.0.0.2 6380")), None, "{wrong:?}");
            assert_eq!(Switch::read(&format!("m 10.0.0.1 6379 {host} {port}")), None, "{wrong:?}");
            let named = Frame::Array { data: vec![fields(&["ip", host, "port", port])], attributes: None };
            assert!(sentinels(&named).is_empty(), "{wrong:?}");
        }
    }
}
