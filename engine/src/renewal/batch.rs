//! Leases that are ready to be renewed, by the node that serves them, the most urgent first. Pure.
//!
//! Where a node takes one call per slot, the leases of a slot go together: the slot with the most urgent lease first,
//! with all of its leases that fit, then the next one.

use super::pile::{Pile, SlotPiles};
use crate::{
    clock::Instant,
    routing::{
        slot::Slot,
        topology::{Batching, Node, NodeId, Topology},
    },
    transport::Renewal,
};

/// Renewals of one node that go out in one call.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) node: NodeId,
    pub(crate) members: Vec<Renewal>,
}

/// A lease that is due; ordered by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ready {
    pub(crate) deadline: Instant,
    pub(crate) ticket: u64,
    pub(crate) slot: Slot,
}

/// What is ready. Grouped anew whenever the topology changes.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    unplaced: Vec<Ready>,
    /// A deployment has so few nodes that looking through them costs less than a hash of one.
    queues: Vec<(NodeId, NodeQueue)>,
    topology_epoch: Option<u64>,
}

/// What is ready for one node.
#[derive(Debug, Default)]
struct NodeQueue {
    together: Pile,
    by_slot: SlotPiles,
}

impl ReadyQueue {
    pub(crate) fn push(&mut self, ready: Ready) {
        self.unplaced.push(ready);
    }

    /// Puts every ready lease to its node; returns those that no connected node serves: they cannot go out now.
    pub(crate) fn regroup(&mut self, topology: &Topology) -> Vec<u64> {
        if self.topology_epoch != Some(topology.epoch()) {
            self.topology_epoch = Some(topology.epoch());
            let queues = std::mem::take(&mut self.queues);
            self.unplaced.extend(queues.into_iter().flat_map(|(_, queue)| queue.into_ready()));
        }
        let mut stranded = Vec::new();
        let mut homeless = Vec::new();
        let mut unplaced = std::mem::take(&mut self.unplaced);
        for ready in unplaced.drain(..) {
            let node = topology.serving(ready.slot);
            if !node.is_some_and(|node| node.connected) {
                stranded.push(ready.ticket);
            }
            match node {
                Some(node) => self.queue(node.id).push(ready, node.batching),
                None => homeless.push(ready),
            }
        }
        unplaced.append(&mut homeless);
        self.unplaced = unplaced;
        stranded
    }

    fn queue(&mut self, id: NodeId) -> &mut NodeQueue {
        let place = self.queues.iter().position(|(node, _)| *node == id).unwrap_or_else(|| {
            self.queues.push((id, NodeQueue::default()));
            self.queues.len() - 1
        });
        &mut self.queues[place].1
    }

    /// The most urgent leases of `node`, as many as one batch takes; `member` turns a ticket into a renewal, or
    /// into nothing if it is not wanted any more.
    pub(crate) fn pop_batch(&mut self, node: &Node, mut member: impl FnMut(u64) -> Option<Renewal>) -> Batch {
        let (queue, most) = (self.queue(node.id), node.batch_leases_max.max(1));
        let mut members = Vec::with_capacity(queue.len().min(most));
        queue.drain(|ticket| {
            members.extend(member(ticket));
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
    fn drain(&mut self, mut take: impl FnMut(u64) -> bool) {
        while let Some(first) = self.together.pop() {
            if !take(first.ticket) {
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
