//! Leases that are ready to be renewed, by the node that serves them, the most urgent first. Pure.
//!
//! Where a node takes one call per slot, the leases of a slot go together: the slot with the most urgent lease first,
//! with all of its leases that fit, then the next one.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

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
    queues: HashMap<NodeId, NodeQueue>,
    topology_epoch: Option<u64>,
}

/// What is ready for one node: by slot, or all of it in one group. `order` has each group at least once under the deadline
/// of its most urgent lease; whatever else it has is passed over.
#[derive(Debug, Default)]
struct NodeQueue {
    groups: HashMap<Option<Slot>, BinaryHeap<Reverse<Ready>>>,
    order: BinaryHeap<Reverse<(Instant, Option<Slot>)>>,
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
            self.unplaced.extend(queues.into_values().flat_map(NodeQueue::into_ready));
        }
        let mut stranded = Vec::new();
        for ready in std::mem::take(&mut self.unplaced) {
            let node = topology.serving(ready.slot);
            if !node.is_some_and(|node| node.connected) {
                stranded.push(ready.ticket);
            }
            match node {
                Some(node) => self.queues.entry(node.id).or_default().push(ready, node.batching),
                None => self.unplaced.push(ready),
            }
        }
        stranded
    }

    /// The most urgent leases of `node`, as many as one batch takes; `member` turns a ticket into a renewal, or
    /// into nothing if it is not wanted any more.
    pub(crate) fn pop_batch(&mut self, node: &Node, mut member: impl FnMut(u64) -> Option<Renewal>) -> Batch {
        let mut members = Vec::new();
        if let Some(queue) = self.queues.get_mut(&node.id) {
            queue.drain(|ticket| {
                members.extend(member(ticket));
                members.len() < node.batch_leases_max.max(1)
            });
        }
        Batch { node: node.id, members }
    }
}

impl NodeQueue {
    fn push(&mut self, ready: Ready, batching: Batching) {
        let group = match batching {
            Batching::AcrossSlots => None,
            Batching::BySlot => Some(ready.slot),
        };
        let others = self.groups.entry(group).or_default();
        if others.peek().is_none_or(|Reverse(first)| ready.deadline < first.deadline) {
            self.order.push(Reverse((ready.deadline, group)));
        }
        others.push(Reverse(ready));
    }

    /// Takes one after the other until `take` says that this was the last, or nothing is left.
    fn drain(&mut self, mut take: impl FnMut(u64) -> bool) {
        while let Some(Reverse((deadline, group))) = self.order.pop() {
            let Some(ready) = self.groups.get_mut(&group) else { continue };
            if ready.peek().is_none_or(|Reverse(first)| first.deadline != deadline) {
                continue;
            }
            while let Some(Reverse(first)) = ready.pop() {
                if take(first.ticket) {
                    continue;
                }
                match ready.peek() {
                    Some(Reverse(next)) => self.order.push(Reverse((next.deadline, group))),
                    None => drop(self.groups.remove(&group)),
                }
                return;
            }
            self.groups.remove(&group);
        }
    }

    fn into_ready(self) -> impl Iterator<Item = Ready> {
        self.groups.into_values().flatten().map(|Reverse(ready)| ready)
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
