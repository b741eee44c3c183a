//! The connections of both engines at one server, as it counts them: the same ids, the same connections.

use std::collections::BTreeMap;

use leasehold_tests::harness::node::Node;

/// Each one's name by its id.
pub(crate) fn connections(node: &Node) -> BTreeMap<u64, String> {
    let mut client = node.client().expect("a connection");
    let list = client.command(&["CLIENT", "LIST"]).expect("a list").text().expect("text");
    list.lines().filter_map(ours).collect()
}

/// `id=3 addr=127.0.0.1:5 ... name=leasehold-calls ...`
fn ours(line: &str) -> Option<(u64, String)> {
    let context = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let name = context("name").filter(|name| name.starts_with("leasehold-"))?;
    Some((context("id")?.parse().expect("a number"), name.to_owned()))
}

/// What two engines have at a master: each one for calls, one for renewals, one for notices.
pub(crate) const COMPLETE: usize = 6;
