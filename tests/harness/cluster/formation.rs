//! Making one cluster of lonely nodes, without `redis-cli`: meet, give out slots, attach replicas.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::view::View;
use crate::harness::node::Node;
use crate::harness::polling::found_within;
use crate::harness::port::CLUSTER_BUS_OFFSET;

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// Masters first, then replicas in the order of their masters. Returns when the nodes know each other and their parts;
/// that all agree takes longer.
pub(super) fn form(nodes: &[Arc<Node>], masters: usize) -> io::Result<()> {
    for (number, node) in nodes.iter().enumerate() {
        // Before they meet, as `redis-cli` does: equal epochs would have to be sorted out by the nodes.
        node.done(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
    }
    for (number, node) in nodes[..masters].iter().enumerate() {
        add_slots(node, number, masters)?;
    }
    for (number, node) in nodes.iter().enumerate() {
        nodes[..number].iter().try_for_each(|earlier| meet(node, earlier))?;
    }
    for (number, replica) in nodes[masters..].iter().enumerate() {
        replicate(replica, &nodes[number % masters])?;
    }
    Ok(())
}

/// Both get to know each other a little later.
pub(super) fn meet(node: &Node, other: &Node) -> io::Result<()> {
    let (port, bus) = (other.port().to_string(), (other.own_port() + CLUSTER_BUS_OFFSET).to_string());
    node.done(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).map(drop)
}

/// Waits until the replica knows its master, and attaches it.
pub(super) fn replicate(replica: &Node, master: &Node) -> io::Result<()> {
    let id = master.done(&["CLUSTER", "MYID"])?.text().unwrap_or_default();
    let attach = || replica.done(&["CLUSTER", "REPLICATE", &id]).ok();
    let why = || io::Error::other(format!("{} never knew its master {}", replica.port(), master.port()));
    found_within(AGREED_WITHIN, attach).map(drop).ok_or_else(why)
}

/// `ADDSLOTS` one by one: servers before 7.0 have no `ADDSLOTSRANGE`.
fn add_slots(node: &Node, number: usize, masters: usize) -> io::Result<()> {
    let all = usize::from(SLOTS);
    let range = number * all / masters..(number + 1) * all / masters;
    let command = ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()].into_iter();
    let command: Vec<String> = command.chain(range.map(|slot| slot.to_string())).collect();
    node.done(&command).map(drop)
}

/// Why these nodes are not yet one cluster in which each of `members` is well; nothing if they are.
///
/// One cluster: each node says `cluster_state:ok`, all say the same of who has which slots, and each replica is linked.
pub(super) fn disagreement(nodes: &[Arc<Node>]) -> io::Result<Option<String>> {
    let mut first = None;
    for node in nodes {
        let view = View::of(node)?;
        if let Some(why) = own_trouble(node, &view, nodes)? {
            return Ok(Some(format!("{}: {why}", node.port())));
        }
        let ownership = view.ownership();
        if first.get_or_insert_with(|| ownership.clone()) != &ownership {
            return Ok(Some(format!("{} sees {ownership:?}, another {first:?}", node.port())));
        }
    }
    Ok(None)
}

fn own_trouble(node: &Node, view: &View, nodes: &[Arc<Node>]) -> io::Result<Option<String>> {
    let info = node.done(&["CLUSTER", "INFO"])?.text().unwrap_or_default();
    if !info.contains("cluster_state:ok") {
        return Ok(Some("cluster_state is not ok".into()));
    }
    let well = |other: &Arc<Node>| view.at_port(other.port()).is_some_and(|member| member.is_well());
    if let Some(unknown) = nodes.iter().find(|other| !well(other)) {
        return Ok(Some(format!("{} is unknown to it or not well", unknown.port())));
    }
    match node.info("replication", "role")?.as_deref() {
        Some("master") => missing_replica(node, view),
        _ => Ok(match node.info("replication", "master_link_status")?.as_deref() {
            Some("up") => None,
            other => Some(format!("its link to its master is {other:?}")),
        }),
    }
}

/// A replica that its master does not count yet is one that a `WAIT` or a failover would not find.
fn missing_replica(master: &Node, view: &View) -> io::Result<Option<String>> {
    let id = view.myself().map(|member| member.id.clone());
    let replicas = view.0.iter().filter(|member| member.master_id == id && member.is_well()).count();
    let linked = master.info("replication", "connected_slaves")?;
    Ok((linked != Some(replicas.to_string())).then(|| format!("{linked:?} of {replicas} replicas linked")))
}

/// Formation takes about 3 s here; a machine that compiles on all cores needs more.
pub(super) const AGREED_WITHIN: Duration = Duration::from_secs(40);
