//! Counts the unanswered renewal batches of each node. Each node has its own limit, so a slow node does not delay the
//! batches of other nodes. Pure.

use std::collections::HashMap;

use crate::routing::topology::NodeId;

#[derive(Debug)]
pub(crate) struct BatchesInFlight {
    most: usize,
    under_way: HashMap<NodeId, usize>,
}

impl BatchesInFlight {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, under_way: HashMap::new() }
    }

    /// How many more batches may be sent to the node.
    pub(crate) fn free(&self, node: NodeId) -> usize {
        self.most.saturating_sub(self.under_way.get(&node).copied().unwrap_or(0))
    }

    pub(crate) fn start(&mut self, node: NodeId) {
        *self.under_way.entry(node).or_default() += 1;
    }

    pub(crate) fn end(&mut self, node: NodeId) {
        let left = self.under_way.get(&node).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            self.under_way.remove(&node); // the node may have left for good
        } else {
            self.under_way.insert(node, left);
        }
    }
}
