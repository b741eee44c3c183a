//! Slots that nobody serves any more (`CLUSTER DELSLOTS`): each node says so for itself, and no claim is ever withdrawn
//! otherwise. Pure.
//!
//! A slot becomes vacant when most of the masters that serve have left it out of what they said last, and the one we
//! believe in is among them, or has failed. A single node that was reset, or has not heard of an owner yet, decides
//! nothing for the others.

use std::collections::{HashMap, HashSet};

use leasehold::routing::{slot::SLOTS, topology::NodeId};

use super::NodeView;

/// Which slots each master said last that nobody serves, as far as we believed in somebody.
#[derive(Debug, Default)]
pub(super) struct UnassignedSlots {
    said: HashMap<NodeId, HashSet<u16>>,
}

impl UnassignedSlots {
    /// Takes in a statement; `holders` are those we believe in, by slot. The slots that are vacant by now.
    pub(super) fn handle(&mut self, statement: &NodeView, holders: &[Option<NodeId>]) -> Vec<u16> {
        let serving: HashSet<NodeId> = holders.iter().flatten().copied().collect();
        let vacant = left_out(statement, holders);
        self.said.insert(statement.by, vacant.iter().copied().collect());
        self.said.retain(|node, _| serving.contains(node));
        let has_failed = |node: &NodeId| statement.failed.contains_key(node);
        let voters: Vec<_> = serving.into_iter().filter(|node| !has_failed(node)).collect();
        let is_vacant = |slot: &u16| {
            let Some(holder) = holders[usize::from(*slot)] else { return false };
            let votes = voters.iter().filter(|node| self.says(**node, *slot)).count();
            votes * 2 > voters.len() && (has_failed(&holder) || self.says(holder, *slot))
        };
        vacant.into_iter().filter(is_vacant).collect()
    }

    /// `node` is said to serve the slot again: what it said before is old.
    pub(super) fn claimed(&mut self, slot: u16, node: NodeId) {
        if let Some(slots) = self.said.get_mut(&node) {
            slots.remove(&slot);
        }
    }

    fn says(&self, node: NodeId, slot: u16) -> bool {
        self.said.get(&node).is_some_and(|slots| slots.contains(&slot))
    }
}

fn left_out(statement: &NodeView, holders: &[Option<NodeId>]) -> Vec<u16> {
    let mut is_claimed = vec![false; usize::from(SLOTS)];
    let claimed = statement.masters.iter().flat_map(|master| master.slots.iter().cloned().flatten());
    claimed.filter(|slot| *slot < SLOTS).for_each(|slot| is_claimed[usize::from(slot)] = true);
    let is_left_out = |slot: &u16| !is_claimed[usize::from(*slot)] && holders[usize::from(*slot)].is_some();
    (0..SLOTS).filter(is_left_out).collect()
}

#[cfg(test)]
mod random_tests;
