//! Leases that are ready to be renewed, grouped by the node that serves them, the earliest deadline first. Pure.
//!
//! If a node takes one call per slot, the leases of a slot go together: first the slot that has the lease with the
//! earliest deadline, with all of its leases that fit into the batch, then the next slot.

use super::deadline_queue::{DeadlineQueue, Ready, SlotQueues};
use crate::{
    routing::topology::{Batching, Node, NodeId, Topology},
    transport::{Call, HoldKind},
};

/// The renewals of one node that are sent in one call.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) node: NodeId,
    pub(crate) members: Vec<Call>,
}

/// The leases that are ready. They are regrouped whenever the topology changes.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// Leases whose slots have no node.
    without_node: Vec<Ready>,
    /// A vector and no map: a deployment has few nodes, so a linear search costs less than one hash.
    queues: Vec<(NodeId, NodeQueue)>,
    topology_epoch: Option<u64>,
}

/// The ready leases of one node.
#[derive(Debug, Default)]
struct NodeQueue {
    together: DeadlineQueue,
    by_slot: SlotQueues,
}

impl ReadyQueue {
    /// The number of leases in the queue, including leases that have ended meanwhile.
    pub(crate) fn len(&self) -> usize {
        self.without_node.len() + self.queues.iter().map(|(_, queue)| queue.len()).sum::<usize>()
    }

    /// Whether the leases are grouped by this topology.
    pub(crate) fn is_grouped_by(&self, topology: &Topology) -> bool {
        self.topology_epoch == Some(topology.epoch())
    }

    /// Marks the leases to be regrouped, because the topology has changed. This holds too if the new epoch equals that
    /// of the empty topology before the first real topology.
    pub(crate) fn forget_grouping(&mut self) {
        self.topology_epoch = None;
    }

    /// Puts every lease for which `is_ready` holds into its node's queue, and drops the other leases. Returns the
    /// leases that no connected node serves and that were not reported before.
    pub(crate) fn regroup(&mut self, topology: &Topology, is_ready: impl Fn(&Ready) -> bool) -> Vec<Ready> {
        self.topology_epoch = Some(topology.epoch());
        let without_node = std::mem::take(&mut self.without_node);
        let queues = std::mem::take(&mut self.queues);
        let all =
            without_node.into_iter().chain(queues.into_iter().flat_map(|(_, queue)| queue.into_ready()));
        all.filter(is_ready).filter_map(|ready| self.push(ready, topology)).collect()
    }

    /// Puts a ready lease into its node's queue. Returns the lease if no connected node serves it and it was not
    /// reported before: such a lease cannot be sent now.
    pub(crate) fn push(&mut self, mut ready: Ready, topology: &Topology) -> Option<Ready> {
        let node = topology.serving(ready.slot);
        let is_stranded = !ready.is_reported && !node.is_some_and(|node| node.connected);
        ready.is_reported |= is_stranded;
        match node {
            Some(node) => self.queue(node.id).push(ready, node.batching),
            None => self.without_node.push(ready),
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

    /// Removes the leases of `node` with the earliest deadlines, up to the maximum size of a batch. A lease with many
    /// permits counts for more. `member` turns a ready lease into a renewal, or into `None` if the renewal is no longer
    /// wanted.
    pub(crate) fn pop_batch(&mut self, node: &Node, mut member: impl FnMut(Ready) -> Option<Call>) -> Batch {
        let (queue, most) = (self.queue(node.id), node.batch_leases_max.max(1));
        let mut members: Vec<Call> = Vec::with_capacity(queue.len().min(most));
        let mut permits = 0;
        queue.drain(|ready| {
            let renewal = member(ready);
            permits += renewal.as_ref().map_or(0, permits_of);
            members.extend(renewal);
            members.len() < most && permits < PERMITS_MAX
        });
        Batch { node: node.id, members }
    }
}

fn permits_of(renewal: &Call) -> usize {
    match renewal.kind {
        HoldKind::Permits(permits) => permits.get().into(),
        _ => 0,
    }
}

/// A batch takes no further lease once it has so many permits. The time that the server needs grows with their number.
const PERMITS_MAX: usize = 10_000;

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

    /// Removes one lease after the other until `take` returns `false` or no lease is left.
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
