//! What goes to one node in one tick: the shards' batches, put together to full ones. Pure.
//!
//! A node that takes one call per slot gets them as they are: a slot has one shard, so there is nothing to put together.

use super::batch::Batch;
use crate::routing::topology::{Batching, NodeId, Topology};

/// At most one batch a node that is not full yet.
#[derive(Debug, Default)]
pub(crate) struct Loads(Vec<Batch>);

impl Loads {
    /// How many batches wait for more: they will need room, too.
    pub(crate) fn waiting(&self, node: NodeId) -> usize {
        self.0.iter().filter(|load| load.node == node).count()
    }

    /// Takes a batch, and gives back one that can go out, if there is one.
    pub(crate) fn add(&mut self, mut batch: Batch, topology: &Topology) -> Option<Batch> {
        let node = topology.node(batch.node).filter(|node| node.batching == Batching::AcrossSlots);
        let Some(node) = node else { return Some(batch) };
        let Some(load) = self.0.iter_mut().find(|load| load.node == batch.node) else {
            self.0.push(batch);
            return None;
        };
        // The one that waited goes first, filled from the front of this one.
        let fits = node.batch_leases_max.saturating_sub(load.members.len()).min(batch.members.len());
        let rest = batch.members.split_off(fits);
        load.members.append(&mut batch.members);
        if rest.is_empty() {
            return None;
        }
        batch.members = rest;
        Some(std::mem::replace(load, batch))
    }

    /// Those that nothing more was found for.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = Batch> {
        self.0.into_iter()
    }
}

#[cfg(test)]
#[path = "loads_tests.rs"]
mod tests;
