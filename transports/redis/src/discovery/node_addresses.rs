//! Under which address each node of a cluster is reached. Pure.
//!
//! Nodes have an id of their own. `CLUSTER SLOTS` names the address that clients should use, but leaves out who has
//! failed and who serves nothing; `CLUSTER NODES` has all of them, with other addresses perhaps. A node that is left
//! out is reached where it was reached before, as long as its line shows it at the same place: were it another server
//! to us, a claim of the one would be the claim of a stranger to the other.

use std::collections::HashMap;

use crate::{config::Address, wire::cluster_nodes::Described};

/// The nodes of one cluster, by their ids.
#[derive(Debug, Default)]
pub(crate) struct NodeAddresses {
    nodes: HashMap<String, Place>,
}

#[derive(Debug)]
struct Place {
    reached: Address,
    line: Address,
}

impl NodeAddresses {
    /// Learns from a view, and completes it.
    pub(crate) fn settle(&mut self, view: &[Described]) -> Vec<Described> {
        for node in view.iter().filter(|node| node.is_preferred) {
            let place = Place { reached: node.address.clone(), line: node.line.clone() };
            self.nodes.insert(node.id.clone(), place);
        }
        if self.nodes.len() > REMEMBERED_MAX {
            self.nodes.retain(|id, _| view.iter().any(|node| node.id == *id));
        }
        view.iter().map(|node| Described { address: self.address(node), ..node.clone() }).collect()
    }

    fn address(&self, node: &Described) -> Address {
        let place = self.nodes.get(&node.id).filter(|place| place.line == node.line);
        place.filter(|_| !node.is_preferred).map_or(&node.address, |place| &place.reached).clone()
    }
}

/// More nodes than any cluster has.
const REMEMBERED_MAX: usize = 1_000;

#[cfg(test)]
mod random_tests;
