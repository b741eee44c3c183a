//! The address at which each node of a cluster is reached. Pure.
//!
//! Each node has an id. `CLUSTER SLOTS` gives the address that clients should use, but it leaves out failed nodes
//! and nodes without slots. `CLUSTER NODES` lists all nodes, possibly with other addresses. A node that `CLUSTER
//! SLOTS` leaves out keeps its last client address, as long as its address in `CLUSTER NODES` is unchanged.
//! Otherwise one node would become two servers for us, and the claims of one would be ignored as claims by an
//! unknown server.

use std::collections::HashMap;

use crate::{config::Address, wire::cluster_nodes::Described};

/// The addresses of a cluster's nodes, by node id.
#[derive(Debug, Default)]
pub(crate) struct NodeAddresses {
    nodes: HashMap<String, NodeAddress>,
}

#[derive(Debug)]
struct NodeAddress {
    reached: Address,
    line: Address,
}

impl NodeAddresses {
    /// Learns the addresses of a view, and returns the view with all client addresses filled in.
    pub(crate) fn complete(&mut self, view: &[Described]) -> Vec<Described> {
        for node in view.iter().filter(|node| node.is_preferred) {
            let entry = NodeAddress { reached: node.address.clone(), line: node.line.clone() };
            self.nodes.insert(node.id.clone(), entry);
        }
        if self.nodes.len() > REMEMBERED_MAX {
            self.nodes.retain(|id, _| view.iter().any(|node| node.id == *id));
        }
        view.iter().map(|node| Described { address: self.address(node), ..node.clone() }).collect()
    }

    fn address(&self, node: &Described) -> Address {
        let entry = self.nodes.get(&node.id).filter(|entry| entry.line == node.line);
        entry.filter(|_| !node.is_preferred).map_or(&node.address, |entry| &entry.reached).clone()
    }
}

/// More nodes than any cluster has.
const REMEMBERED_MAX: usize = 1_000;

#[cfg(test)]
mod random_tests;
