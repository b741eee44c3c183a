//! Which owners wait for a node that has not answered the closer. Pure.
//!
//! While a node is silent, one of its owners after the other is due, [`PROBE_PAUSE`] apart. As soon as the node has
//! answered anything, all of them are. So they cost a silent node 20 releases a second and one a minute each, and all are
//! asked about within [`PROBE_PAUSE`] of the first moment at which the node answers.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use crate::{clock::Instant, lease::unconfirmed_owner::ReleaseDue, routing::topology::NodeId};

/// The silent nodes, each with the places of its owners in the closer's line.
#[derive(Debug, Default)]
pub(crate) struct SilentNodes {
    of: HashMap<Option<NodeId>, BTreeSet<ReleaseDue>>,
}

impl SilentNodes {
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The node did not answer for this owner: when it is due again.
    pub(crate) fn add(&mut self, node: Option<NodeId>, number: u64, now: Instant) -> Instant {
        let places = self.of.entry(node).or_default();
        let is_next = places.first().is_none_or(|(due, _)| *due > now + PROBE_PAUSE);
        let due = now + if is_next { PROBE_PAUSE } else { SILENT_PAUSE };
        places.insert((due, number));
        due
    }

    /// An owner of this node is due. Who is to be due next, and when.
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

    /// The node has answered: the places of all its owners.
    pub(crate) fn end(&mut self, node: Option<NodeId>) -> BTreeSet<ReleaseDue> {
        self.of.remove(&node).unwrap_or_default()
    }

    /// The same for all nodes.
    pub(crate) fn end_all(&mut self) -> Vec<ReleaseDue> {
        std::mem::take(&mut self.of).into_values().flatten().collect()
    }
}

/// Between two releases that are sent to a silent node.
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// After it each owner of a silent node is due in any case.
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
