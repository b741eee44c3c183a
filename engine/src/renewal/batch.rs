//! Leases that are ready to be renewed, by the node that serves them, the most urgent first. Pure.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    clock::Instant,
    routing::{
        slot::Slot,
        topology::{Node, NodeId, Topology},
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
    queues: Vec<NodeQueue>,
    topology_epoch: Option<u64>,
}

#[derive(Debug)]
struct NodeQueue {
    node: NodeId,
    ready: BinaryHeap<Reverse<Ready>>,
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
            self.unplaced
                .extend(queues.into_iter().flat_map(|queue| queue.ready).map(|Reverse(ready)| ready));
        }
        let mut stranded = Vec::new();
        for ready in std::mem::take(&mut self.unplaced) {
            let node = topology.serving(ready.slot);
            if !node.is_some_and(|node| node.connected) {
                stranded.push(ready.ticket);
            }
            match node {
                Some(node) => self.queue(node.id).push(Reverse(ready)),
                None => self.unplaced.push(ready),
            }
        }
        stranded
    }

    /// The most urgent leases of `node`, as many as one batch takes; `member` turns a ticket into a renewal, or
    /// into nothing if it is not wanted any more.
    pub(crate) fn pop_batch(&mut self, node: &Node, mut member: impl FnMut(u64) -> Option<Renewal>) -> Batch {
        let queue = self.queue(node.id);
        let mut members = Vec::new();
        while members.len() < node.batch_leases_max.max(1) {
            let Some(Reverse(ready)) = queue.pop() else { break };
            members.extend(member(ready.ticket));
        }
        Batch { node: node.id, members }
    }

    fn queue(&mut self, node: NodeId) -> &mut BinaryHeap<Reverse<Ready>> {
        let place = self.queues.iter().position(|queue| queue.node == node).unwrap_or_else(|| {
            self.queues.push(NodeQueue { node, ready: BinaryHeap::new() });
            self.queues.len() - 1
        });
        &mut self.queues[place].ready
    }
}
