//! A node's view of its cluster: the text of `CLUSTER NODES`, with the addresses of `CLUSTER SLOTS`. Pure.
//!
//! `CLUSTER NODES` is the only reply with configuration epochs, and every version has it. Only `CLUSTER SLOTS`
//! gives the address of each node that clients should use (`cluster-preferred-endpoint-type`).

use std::{collections::HashMap, ops::RangeInclusive};

use fred::types::Resp3Frame as Frame;
use leasehold::routing::slot::SLOTS;

use super::{host_port::parse_number, reply};
use crate::config::Address;

/// One node, as another node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) id: String,
    /// The address for clients.
    pub(crate) address: Address,
    /// The address that the nodes themselves use.
    pub(crate) line: Address,
    /// Whether `CLUSTER SLOTS` gives the address. Otherwise the address is a guess.
    pub(crate) is_preferred: bool,
    pub(crate) is_myself: bool,
    pub(crate) is_master: bool,
    /// Failed, not reachable for any node, or not a member yet.
    pub(crate) is_out: bool,
    /// Failed, according to a majority of masters.
    pub(crate) is_failed: bool,
    pub(crate) epoch: u64,
    pub(crate) slots: Vec<RangeInclusive<u16>>,
}

/// Parses both replies of the node at `asked`. Nodes without any address are left out. `None`: the format is not
/// that of Redis.
pub(crate) fn read(nodes: &Frame, slots: Option<&Frame>, asked: &Address) -> Option<Vec<Described>> {
    let text = reply::text(nodes)?;
    let endpoints = slots.map(|slots| endpoints(slots, asked)).unwrap_or_default();
    let preferred = Preferred { uses_names: uses_names(text, &endpoints), endpoints };
    let lines = text.lines().filter(|line| !line.is_empty());
    let described: Option<Vec<_>> = lines.map(|line| describe(line, &preferred, asked)).collect();
    let described: Vec<_> = described?.into_iter().flatten().collect();
    (claimed(&described) <= usize::from(SLOTS)).then_some(described)
}

/// Returns how many slots the nodes claim together. Each slot has one master, so a sum above the number of slots is
/// not valid. Such a view from a hostile node could keep a thread busy without a limit.
fn claimed(nodes: &[Described]) -> usize {
    nodes.iter().flat_map(|node| &node.slots).map(|slots| slots.clone().count()).sum()
}

/// The addresses in `CLUSTER SLOTS`.
struct Preferred<'a> {
    endpoints: HashMap<&'a str, Address>,
    /// Whether the cluster prefers host names. Nodes that are left out share that preference.
    uses_names: bool,
}

impl Preferred<'_> {
    fn guess(&self, endpoint: &str, line: &Address) -> Address {
        let name = name(endpoint).filter(|_| self.uses_names);
        name.map_or_else(|| line.clone(), |name| Address::new(name, line.port))
    }
}

fn uses_names(text: &str, endpoints: &HashMap<&str, Address>) -> bool {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.any(|(id, rest)| {
        let name = rest.split(' ').next().and_then(name);
        name.is_some_and(|name| endpoints.get(id).is_some_and(|address| address.host == name))
    })
}

// Format: `<id> <ip:port@bus[,hostname[,...]]> <flags> <master> <ping> <pong> <epoch> <link> <slot> ...`
fn describe(line: &str, preferred: &Preferred<'_>, asked: &Address) -> Option<Option<Described>> {
    let words: Vec<&str> = line.split(' ').collect();
    let [id, endpoint, flags, _, _, _, epoch, _, slots @ ..] = words.as_slice() else { return None };
    let flag = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
    let epoch = parse_number(epoch)?;
    let preferred_address = preferred.endpoints.get(id).cloned();
    let Some(line) = address(endpoint, asked).or_else(|| preferred_address.clone()) else {
        return Some(None);
    };
    Some(Some(Described {
        id: (*id).to_owned(),
        is_preferred: preferred_address.is_some(),
        address: preferred_address.unwrap_or_else(|| preferred.guess(endpoint, &line)),
        line,
        is_myself: flag("myself"),
        is_master: flag("master"),
        is_out: flag("fail") || flag("handshake") || flag("noaddr"),
        is_failed: flag("fail"),
        epoch,
        slots: slots.iter().filter_map(|slot| range(slot)).collect(),
    }))
}

/// Returns the hostname that the node announces. Further fields have the form `name=value`.
fn name(endpoint: &str) -> Option<&str> {
    endpoint.split(',').nth(1).filter(|name| !name.is_empty() && !name.contains('='))
}

// A node that does not know its own address yet has the address at which it was asked.
fn address(endpoint: &str, asked: &Address) -> Option<Address> {
    let place = endpoint.split(['@', ',']).next()?;
    let (host, port) = place.rsplit_once(':')?;
    let host = if host.is_empty() { &asked.host } else { host };
    let port = parse_number(port).filter(|port| *port > 0)?;
    Some(Address::new(host, port))
}

/// Parses `7` or `0-5460`. A slot that is being moved is written `[7->-id]`, and still belongs to its old node.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    if text.starts_with('[') {
        return None;
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(parse_number(first)?..=parse_number(last)?)
}

/// Parses `[[first, last, [endpoint, port, id, ...], ...], ...]` into the client address of each node id.
fn endpoints<'a>(slots: &'a Frame, asked: &Address) -> HashMap<&'a str, Address> {
    let entries = reply::array(slots).unwrap_or_default().iter().filter_map(reply::array);
    entries.flat_map(|entry| entry.iter().skip(2)).filter_map(|node| endpoint(node, asked)).collect()
}

fn endpoint<'a>(node: &'a Frame, asked: &Address) -> Option<(&'a str, Address)> {
    let [host, port, id, ..] = reply::array(node)? else { return None };
    let port = u16::try_from(reply::number(port)?).ok().filter(|port| *port > 0)?;
    // Null or empty: the host at which the answering node was asked. `?`: the node should have a hostname, but none
    // is set.
    let host = reply::text(host).filter(|host| !host.is_empty()).unwrap_or(&asked.host);
    (host != "?").then(|| Some((reply::text(id)?, Address::new(host, port))))?
}

#[cfg(test)]
mod random_tests;

#[cfg(test)]
mod tests {
    use fred::types::Resp3Frame as Frame;

    use super::*;

    fn text(text: &str) -> Frame {
        Frame::BlobString { data: text.to_owned().into(), attributes: None }
    }

    fn number(data: i64) -> Frame {
        Frame::Number { data, attributes: None }
    }

    fn array(data: Vec<Frame>) -> Frame {
        Frame::Array { data, attributes: None }
    }

    fn asked() -> Address {
        Address::new("10.0.0.9", 7000)
    }

    const NODES: &str = "\
aa 10.0.0.1:7001@17001 myself,master - 0 1795250671168 7 connected 0-5460 9000 [93->-bb]
bb 10.0.0.2:7002@17002,host-b master,fail - 0 1795250671168 2 disconnected 5461-8999
cc 10.0.0.3:7003@17003,host-c,shard-id=x slave aa 0 1795250671168 7 connected
dd :0@0 master,noaddr - 0 0 0 disconnected
ee :7005@17005 master - 0 0 0 connected
";

    #[test]
    fn masters_and_their_claims_are_read() {
        let nodes = read(&text(NODES), None, &asked()).unwrap();
        assert_eq!(nodes.len(), 4, "one has no address");
        let first = &nodes[0];
        assert_eq!((&first.address, first.epoch), (&Address::new("10.0.0.1", 7001), 7));
        assert!(first.is_myself && first.is_master && !first.is_out);
        assert_eq!(first.slots, [0..=5460, 9000..=9000]);
        assert!(nodes[1].is_out && nodes[1].slots == [5461..=8999]);
        assert!(!nodes[2].is_master && nodes[2].slots.is_empty());
        assert_eq!(nodes[3].address, Address::new("10.0.0.9", 7005));
    }

    #[test]
    fn the_endpoint_that_the_cluster_prefers_wins() {
        let node = |host, port, id| array(vec![host, number(port), text(id), array(vec![])]);
        let entry = vec![
            number(0),
            number(5460),
            node(text("host-a"), 7001, "aa"),
            node(text(""), 7002, "bb"),
            node(text("?"), 7003, "cc"),
        ];
        let nodes = read(&text(NODES), Some(&array(vec![array(entry)])), &asked()).unwrap();
        let hosts: Vec<_> = nodes.iter().map(|node| node.address.host.as_str()).collect();
        assert_eq!(hosts, ["host-a", "10.0.0.9", "10.0.0.3", "10.0.0.9"]);
    }

    #[test]
    fn a_node_that_the_slots_leave_out_has_an_address_of_the_same_kind() {
        let node = |host, port, id| array(vec![host, number(port), text(id), array(vec![])]);
        let hosts = |first, second| {
            let entry =
                vec![number(0), number(5460), node(text(first), 7001, "aa"), node(text(second), 7002, "bb")];
            let nodes = read(&text(NODES), Some(&array(vec![array(entry)])), &asked()).unwrap();
            nodes.into_iter().map(|node| node.address.host).collect::<Vec<_>>()
        };
        assert_eq!(hosts("10.0.0.1", "host-b"), ["10.0.0.1", "host-b", "host-c", "10.0.0.9"]);
        assert_eq!(hosts("10.0.0.1", "10.0.0.2"), ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9"]);
    }

    #[test]
    fn more_slots_than_there_are_make_no_sense() {
        let line = "aa 10.0.0.1:7001@17001 myself,master - 0 0 7 connected";
        let is_valid = |slots: &str| read(&text(&format!("{line} {slots}")), None, &asked()).is_some();
        assert!(is_valid("0-16383") && !is_valid("0-16383 0") && !is_valid("0-65535"));
    }

    #[test]
    fn another_shape_is_not_guessed_at() {
        assert_eq!(read(&text("aa 10.0.0.1:7001@17001 master"), None, &asked()), None);
        assert_eq!(read(&text("aa h:1@2 master - 0 0 epoch connected"), None, &asked()), None);
        assert_eq!(read(&number(1), None, &asked()), None);
    }
}
