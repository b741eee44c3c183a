//! A limit of the unanswered requests of one kind on each node, and the requests that wait for it. Pure.
//!
//! A node that does not answer fills only its own limit. Requests to other nodes are not delayed.

use std::collections::{HashMap, VecDeque};

use crate::routing::topology::NodeId;

/// The limits by node. All slots without a node share one limit. An item `T` waits while its node is at the limit.
#[derive(Debug)]
pub(crate) struct PerNodeLimit<T> {
    most: usize,
    of: HashMap<Option<NodeId>, NodeLimit<T>>,
}

#[derive(Debug)]
struct NodeLimit<T> {
    in_flight: usize,
    waiting: VecDeque<T>,
}

impl<T> PerNodeLimit<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, of: HashMap::new() }
    }

    /// Returns `item` if the node is below its limit, and counts it; otherwise queues it and returns `None`.
    pub(crate) fn enter(&mut self, node: Option<NodeId>, item: T) -> Option<T> {
        let node_limit =
            self.of.entry(node).or_insert_with(|| NodeLimit { in_flight: 0, waiting: VecDeque::new() });
        if node_limit.in_flight < self.most {
            node_limit.in_flight += 1;
            return Some(item);
        }
        node_limit.waiting.push_back(item);
        None
    }

    /// Counts one request less, and returns the item that has waited longest for this node. The caller enters it again,
    /// because its slot may have another node by now.
    pub(crate) fn leave(&mut self, node: Option<NodeId>) -> Option<T> {
        let node_limit = self.of.get_mut(&node)?;
        node_limit.in_flight = node_limit.in_flight.saturating_sub(1);
        let next = node_limit.waiting.pop_front();
        if node_limit.in_flight == 0 && node_limit.waiting.is_empty() {
            self.of.remove(&node);
        }
        next
    }

    /// Whether the node has no request in flight.
    pub(crate) fn is_empty(&self, node: Option<NodeId>) -> bool {
        self.of.get(&node).is_none_or(|node_limit| node_limit.in_flight == 0)
    }

    /// Removes and returns every item that waits for this node.
    pub(crate) fn take_waiting_at(&mut self, node: Option<NodeId>) -> Vec<T> {
        self.of.get_mut(&node).map_or(Vec::new(), |node_limit| node_limit.waiting.drain(..).collect())
    }

    /// Removes and returns every waiting item, because the slots have moved. The caller enters them again.
    pub(crate) fn take_waiting(&mut self) -> Vec<T> {
        self.of.values_mut().flat_map(|node_limit| node_limit.waiting.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Option<NodeId> = Some(NodeId(0));
    const GOOD: Option<NodeId> = Some(NodeId(1));

    #[test]
    fn a_full_node_keeps_no_call_from_another_node() {
        let mut per_node = PerNodeLimit::new(2);
        assert_eq!([1, 2, 3, 4].map(|item| per_node.enter(BAD, item)), [Some(1), Some(2), None, None]);
        assert_eq!(per_node.enter(GOOD, 5), Some(5));
        assert_eq!((per_node.leave(BAD), per_node.enter(BAD, 3)), (Some(3), Some(3)));
        assert_eq!(per_node.enter(BAD, 6), None, "full again");
        assert_eq!(per_node.take_waiting(), [4, 6]);
    }

    #[test]
    fn a_node_without_calls_is_forgotten() {
        let mut per_node = PerNodeLimit::new(1);
        assert_eq!(
            [per_node.enter(BAD, 1), per_node.enter(None, 2), per_node.enter(BAD, 3)],
            [Some(1), Some(2), None]
        );
        assert_eq!([per_node.leave(BAD), per_node.leave(None)], [Some(3), None]);
        assert!(per_node.of.is_empty());
    }
}
