//! Leases that are ready to be renewed, by the node that serves them, the most urgent first. Pure.
//!
//! Where a node takes one call per slot, the leases of a slot go together: the slot with the most urgent lease first,
//! with all of its leases that fit, then the next one.

use super::deadline_queue::{DeadlineQueue, Ready, SlotQueues};
use crate::{
    routing::topology::{Batching, Node, NodeId, Topology},
    transport::Renewal,
};

/// Renewals of one node that go out in one call.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) node: NodeId,
    pub(crate) members: Vec<Renewal>,
}

/// What is ready in all shards. Grouped anew whenever the topology changes.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// Leases of slots that no node serves.
    homeless: Vec<Ready>,
    /// A deployment has so few nodes that looking through them costs less than a hash of one.
    queues: Vec<(NodeId, NodeQueue)>,
    topology_epoch: Option<u64>,
}

/// What is ready for one node.
#[derive(Debug, Default)]
struct NodeQueue {
    together: DeadlineQueue,
    by_slot: SlotQueues,
}

impl ReadyQueue {
    /// How many leases it has, those included that are gone by now.
    pub(crate) fn len(&self) -> usize {
        self.homeless.len() + self.queues.iter().map(|(_, queue)| queue.len()).sum::<usize>()
    }

    /// Whether its leases are grouped by this topology.
    pub(crate) fn is_grouped_by(&self, topology: &Topology) -> bool {
        self.topology_epoch == Some(topology.epoch())
    }

    /// The topology has changed: its leases are to be grouped anew, also if the epoch is that of the empty topology that
    /// was known before any other.
    pub(crate) fn forget_grouping(&mut self) {
        self.topology_epoch = None;
    }

    /// Puts every lease that `is_ready` to its node, and drops the others. Returns those that no connected node serves
    /// and that were not told so before.
    pub(crate) fn regroup(&mut self, topology: &Topology, is_ready: impl Fn(&Ready) -> bool) -> Vec<Ready> {
        self.topology_epoch = Some(topology.epoch());
        let homeless = std::mem::take(&mut self.homeless);
        let queues = std::mem::take(&mut self.queues);
        let all = homeless.into_iter().chain(queues.into_iter().flat_map(|(_, queue)| queue.into_ready()));
        all.filter(is_ready).filter_map(|ready| self.push(ready, topology)).collect()
    }

    /// Puts a ready lease to its node. Returns it if no connected node serves it and it was not told so before: it
    /// cannot go out now.
    pub(crate) fn push(&mut self, mut ready: Ready, topology: &Topology) -> Option<Ready> {
        let node = topology.serving(ready.slot);
        let is_stranded = !ready.told && !node.is_some_and(|node| node.connected);
        ready.told |= is_stranded;
        match node {
            Some(node) => self.queue(node.id).push(ready, node.batching),
            None => self.homeless.push(ready),
        }
        is_stranded.then_some(ready)
    }

    fn queue(&mut self, id: NodeId) -> &mut NodeQueue {
        let place = self.queues.iter().position(|(node, _)| *node == id).unwrap_or_else(|| {
            self.queues.push((id, NodeQueue::default()));
            self.queues.len() - 1
        });
        &mut self.queues[place].1
    }

    /// The most urgent leases of `node`, as many as one batch takes; `member` turns a ready lease into a renewal, or
    /// into nothing if it is not wanted any more.
    pub(crate) fn pop_batch(
        &mut self,
        node: &Node,
        mut member: impl FnMut(Ready) -> Option<Renewal>,
    ) -> Batch {
        let (queue, most) = (self.queue(node.id), node.batch_leases_max.max(1));
        let mut members = Vec::with_capacity(queue.len().min(most));
        queue.drain(|ready| {
            members.extend(member(ready));
            members.len() < most
        });
        Batch { node: node.id, members }
    }
}

impl NodeQueue {
    fn push(&mut self, ready: Ready, batching: Batching) {
        match batching {
            Batching::AcrossSlots => self.together.push(ready),
            Batching::BySlot => self.by_slot.push(ready),
        }
    }

    fn len(&self) -> usize {
        self.together.len() + self.by_slot.len()
    }

    /// Takes one after the other until `take` says that this was the last, or nothing is left.
    fn drain(&mut self, mut take: impl FnMut(Ready) -> bool) {
        while let Some(first) = self.together.pop() {
            if !take(first) {
                return;
            }
        }
        self.by_slot.drain(take);
    }

    fn into_ready(self) -> impl Iterator<Item = Ready> {
        self.together.into_ready().chain(self.by_slot.into_ready())
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
