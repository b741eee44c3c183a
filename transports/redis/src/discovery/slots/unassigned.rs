//! Slots that no node serves any more (`CLUSTER DELSLOTS`). Each node drops them only for itself, and no other
//! message withdraws a claim. Pure.
//!
//! A slot becomes unassigned when the last views of a majority of the serving masters leave it out, and the
//! recorded master is one of them, or has failed. So a single node that was reset, or that does not know an owner
//! yet, decides nothing for the others.

use std::collections::{HashMap, HashSet};

use leasehold::routing::{slot::SLOTS, topology::NodeId};

use super::NodeView;

/// For each master, the slots that its last view leaves out although a master is recorded for them.
#[derive(Debug, Default)]
pub(super) struct UnassignedSlots {
    left_out_by: HashMap<NodeId, HashSet<u16>>,
}

impl UnassignedSlots {
    /// Takes in a view, and returns the slots that are unassigned now. `holders` are the recorded masters, by slot.
    pub(super) fn handle(&mut self, view: &NodeView, holders: &[Option<NodeId>]) -> Vec<u16> {
        let serving: HashSet<NodeId> = holders.iter().flatten().copied().collect();
        let unassigned = left_out(view, holders);
        self.left_out_by.insert(view.by, unassigned.iter().copied().collect());
        self.left_out_by.retain(|node, _| serving.contains(node));
        let has_failed = |node: &NodeId| view.failed.contains_key(node);
        let voters: Vec<_> = serving.into_iter().filter(|node| !has_failed(node)).collect();
        let is_unassigned = |slot: &u16| {
            let Some(holder) = holders[usize::from(*slot)] else { return false };
            let votes = voters.iter().filter(|node| self.leaves_out(**node, *slot)).count();
            votes * 2 > voters.len() && (has_failed(&holder) || self.leaves_out(holder, *slot))
        };
        unassigned.into_iter().filter(is_unassigned).collect()
    }

    /// Takes in that `node` is said to serve the slot again, which outdates its last view for this slot.
    pub(super) fn claimed(&mut self, slot: u16, node: NodeId) {
        if let Some(slots) = self.left_out_by.get_mut(&node) {
            slots.remove(&slot);
        }
    }

    fn leaves_out(&self, node: NodeId, slot: u16) -> bool {
        self.left_out_by.get(&node).is_some_and(|slots| slots.contains(&slot))
    }
}

fn left_out(view: &NodeView, holders: &[Option<NodeId>]) -> Vec<u16> {
    let mut is_claimed = vec![false; usize::from(SLOTS)];
    let claimed = view.masters.iter().flat_map(|master| master.slots.iter().cloned().flatten());
    claimed.filter(|slot| *slot < SLOTS).for_each(|slot| is_claimed[usize::from(slot)] = true);
    let is_left_out = |slot: &u16| !is_claimed[usize::from(*slot)] && holders[usize::from(*slot)].is_some();
    (0..SLOTS).filter(is_left_out).collect()
}

#[cfg(test)]
mod random_tests;
