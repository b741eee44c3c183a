//! The owners whose release waits for a silent node: a node that has not answered the reconciler. Pure.
//!
//! While a node is silent, its owners become due one after the other, [`PROBE_PAUSE`] apart. As soon as the node has
//! answered anything, all of its owners become due. So a silent node gets 20 releases per second, plus one release per
//! minute for each owner, and all owners are asked about within [`PROBE_PAUSE`] of the first moment at which the node
//! answers.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use crate::{clock::Instant, lease::unconfirmed_owner::ReleaseDue, routing::topology::NodeId};

/// The silent nodes, each with the places of its owners in the reconciler's queue.
#[derive(Debug, Default)]
pub(crate) struct SilentNodes {
    of: HashMap<Option<NodeId>, BTreeSet<ReleaseDue>>,
}

impl SilentNodes {
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Adds an owner for which the node did not answer, and returns when that owner is due again.
    pub(crate) fn add(&mut self, node: Option<NodeId>, number: u64, now: Instant) -> Instant {
        let places = self.of.entry(node).or_default();
        let is_next = places.first().is_none_or(|(due, _)| *due > now + PROBE_PAUSE);
        let due = now + if is_next { PROBE_PAUSE } else { SILENT_PAUSE };
        places.insert((due, number));
        due
    }

    /// An owner of this node is due. Returns the place of the owner that is due next, and its new due moment.
    pub(crate) fn take(
        &mut self,
        node: Option<NodeId>,
        place: ReleaseDue,
        now: Instant,
    ) -> Option<(ReleaseDue, Instant)> {
        let places = self.of.get_mut(&node)?;
        places.remove(&place);
        let next = now + PROBE_PAUSE;
        let earliest = places.first().copied().filter(|(due, _)| *due > next)?;
        places.remove(&earliest);
        places.insert((next, earliest.1));
        Some((earliest, next))
    }

    /// The node has answered. Removes and returns the places of all its owners.
    pub(crate) fn end(&mut self, node: Option<NodeId>) -> BTreeSet<ReleaseDue> {
        self.of.remove(&node).unwrap_or_default()
    }

    /// Removes and returns the places of the owners of all nodes.
    pub(crate) fn end_all(&mut self) -> Vec<ReleaseDue> {
        std::mem::take(&mut self.of).into_values().flatten().collect()
    }
}

/// The pause between two releases that are sent to a silent node.
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause after which an owner of a silent node is due again.
const SILENT_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Option<NodeId> = Some(NodeId(1));
    const OTHER: Option<NodeId> = Some(NodeId(2));

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn of_many_owners_of_a_silent_node_one_is_due_each_50_ms() {
        let mut silent_nodes = SilentNodes::default();
        let due: Vec<_> = (1..=4).map(|number| silent_nodes.add(NODE, number, at(0))).collect();
        assert_eq!(due, [at(50), at(60_000), at(60_000), at(60_000)]);
        assert_eq!(silent_nodes.take(NODE, (at(50), 1), at(50)), Some(((at(60_000), 2), at(100))));
        assert_eq!(silent_nodes.add(NODE, 1, at(51)), at(60_051), "another one is next");
        assert_eq!(silent_nodes.take(NODE, (at(100), 2), at(100)), Some(((at(60_000), 3), at(150))));
    }

    #[test]
    fn the_only_owner_of_a_silent_node_is_due_each_50_ms() {
        let mut silent_nodes = SilentNodes::default();
        for ms in [0, 50, 100, 150] {
            assert_eq!(silent_nodes.add(NODE, 1, at(ms)), at(ms + 50));
            assert_eq!(silent_nodes.take(NODE, (at(ms + 50), 1), at(ms + 50)), None);
        }
    }

    #[test]
    fn a_node_that_answers_ends_its_own_silence_only() {
        let mut silent_nodes = SilentNodes::default();
        silent_nodes.add(NODE, 1, at(0));
        silent_nodes.add(NODE, 2, at(0));
        silent_nodes.add(OTHER, 3, at(0));
        assert_eq!(silent_nodes.end(NODE).into_iter().map(|(_, number)| number).collect::<Vec<_>>(), [1, 2]);
        assert!(silent_nodes.end(NODE).is_empty() && !silent_nodes.is_empty());
        assert_eq!(silent_nodes.end_all(), [(at(50), 3)]);
        assert!(silent_nodes.is_empty());
    }
}
