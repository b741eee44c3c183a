//! Which node serves which slot of a cluster, merged from the views of many nodes. Pure.
//!
//! Every node has its own view, and some views are old, for example those of a master that was paused, or of a node
//! behind a partition. A node's claim to a slot carries its *configuration epoch*. Of two claims, the one with the
//! higher epoch is later (Redis Cluster specification, "Hash slots configuration propagation"). The table records
//! one claim per slot; the node of that claim is the *recorded node*. A claim in a view replaces it if
//!
//! 1. its epoch is not below that of the recorded claim, or
//! 2. the view is by the recorded node itself, so that node says that it does not serve the slot, or
//! 3. the node with this view does not know the recorded node any more, or
//! 4. the view says that the recorded node has failed, and covers its claims up to the epoch of the recorded one.
//!
//! By rule 1 an old view changes nothing, whichever node sends it. Rules 2 and 3 let a cluster that was reset start
//! again at epoch 0. Rule 4 avoids waiting for a failed node to disown its slots: a view can show a slot at its
//! former master with an epoch that this master took later, for another slot.
//!
//! A `MOVED` reply by the recorded node disowns the slot, as in rule 2, but only for that slot. An older view does
//! not give the slot back, except a view by the node that sent the `MOVED` (the *giver*). The recorded epoch stays,
//! because the reply does not carry the new one. A guess that is too high would outlive the claims of the next real
//! owner. This epoch is not the new node's, and after a second redirect it is not the giver's either. So it is not
//! compared in rule 4, nor with the giver's own view. Otherwise a slot that was given to a failed node would never
//! come back.
//!
//! Slots that no node claims any more have no server: see `unassigned`.

mod node_view;
mod unassigned;

use leasehold::routing::{
    slot::{SLOTS, Slot},
    topology::{NodeId, SlotRange},
};

pub(crate) use self::node_view::{NodeView, SlotClaims};
use self::unassigned::UnassignedSlots;

/// The slots of a cluster, with the recorded claim to each.
#[derive(Debug)]
pub(crate) struct SlotTable {
    claims: Vec<Option<Claim>>,
    unassigned: UnassignedSlots,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    node: NodeId,
    epoch: u64,
    /// The node that has given the slot away in a redirect, at this epoch at the latest.
    given_by: Option<NodeId>,
}

impl Default for SlotTable {
    fn default() -> Self {
        Self { claims: vec![None; usize::from(SLOTS)], unassigned: UnassignedSlots::default() }
    }
}

impl SlotTable {
    /// Merges a view. Returns whether a slot has a different node now, or none any more.
    pub(crate) fn merge(&mut self, view: &NodeView) -> bool {
        let mut changed = false;
        for master in &view.masters {
            let new = Claim { node: master.node, epoch: master.epoch, given_by: None };
            for slot in master.slots.iter().cloned().flatten().filter(|slot| *slot < SLOTS) {
                changed |= self.consider(slot, new, view);
            }
        }
        self.clear_unassigned(view) || changed
    }

    fn clear_unassigned(&mut self, view: &NodeView) -> bool {
        let holders: Vec<_> = self.claims.iter().map(|claim| claim.map(|claim| claim.node)).collect();
        let unassigned = self.unassigned.handle(view, &holders);
        unassigned.iter().for_each(|slot| self.claims[usize::from(*slot)] = None);
        !unassigned.is_empty()
    }

    fn consider(&mut self, slot: u16, new: Claim, view: &NodeView) -> bool {
        let held = &mut self.claims[usize::from(slot)];
        let is_replaced = held.is_none_or(|held| held.is_replaced_by(new, view));
        if !is_replaced || *held == Some(new) {
            return false;
        }
        let other_node = held.is_none_or(|held| held.node != new.node);
        *held = Some(new);
        self.unassigned.claimed(slot, new.node);
        other_node
    }

    /// Takes in that `by` answered `MOVED`: `to` serves the slot. Returns whether this changed the slot's node.
    pub(crate) fn moved(&mut self, slot: Slot, by: NodeId, to: NodeId) -> bool {
        let held = &mut self.claims[usize::from(slot.number())];
        self.unassigned.claimed(slot.number(), to);
        match held {
            Some(held) if held.node != by => false,
            Some(held) => {
                let given_by = (to != by).then_some(by);
                *held = Claim { node: to, given_by, ..*held };
                to != by
            }
            None => {
                *held = Some(Claim { node: to, epoch: 0, given_by: None });
                true
            }
        }
    }

    /// Returns the ranges of consecutive slots with the same node. Slots without a node are in no range.
    pub(crate) fn ranges(&self) -> Vec<SlotRange> {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for (number, claim) in (0..SLOTS).zip(&self.claims) {
            let (Some(claim), Some(slot)) = (claim, Slot::from_number(number)) else { continue };
            match ranges.last_mut() {
                Some(last) if last.node == claim.node && last.last.number() + 1 == number => last.last = slot,
                _ => ranges.push(SlotRange { first: slot, last: slot, node: claim.node }),
            }
        }
        ranges
    }
}

impl Claim {
    fn is_replaced_by(&self, new: Self, by: &NodeView) -> bool {
        // The same node at the epoch at which it gave the slot away is not news.
        let is_old = new.epoch < self.epoch || (new.epoch == self.epoch && self.given_by == Some(new.node));
        let has_failed = || by.failed.get(&self.node).is_some_and(|epoch| self.is_covered(*epoch, new.node));
        let is_taken_back = by.by == new.node && self.given_by == Some(new.node);
        !is_old || is_taken_back || by.by == self.node || !by.known.contains(&self.node) || has_failed()
    }

    /// Whether a view that knows our node up to `epoch`, and claims the slot for `other`, includes this claim. The
    /// epoch of a slot that was given away says nothing about our node, but a view from before would name the
    /// giver.
    fn is_covered(&self, epoch: u64, other: NodeId) -> bool {
        epoch >= self.epoch || self.given_by.is_some_and(|giver| giver != other)
    }
}

#[cfg(test)]
mod random_tests;

#[cfg(test)]
mod tests {
    use std::{
        collections::{HashMap, HashSet},
        ops::RangeInclusive,
    };

    use super::*;

    const X: NodeId = NodeId(0);
    const Y: NodeId = NodeId(1);
    const Z: NodeId = NodeId(2);

    fn says(by: NodeId, masters: &[(NodeId, u64, RangeInclusive<u16>)]) -> NodeView {
        let claims = |(node, epoch, slots): &(NodeId, u64, RangeInclusive<u16>)| SlotClaims {
            node: *node,
            epoch: *epoch,
            slots: vec![slots.clone()],
        };
        NodeView {
            by,
            known: HashSet::from([X, Y, Z]),
            failed: HashMap::new(),
            masters: masters.iter().map(claims).collect(),
        }
    }

    fn owner(table: &SlotTable, slot: u16) -> Option<NodeId> {
        let ranges = table.ranges();
        let number = |range: &SlotRange| range.first.number()..=range.last.number();
        ranges.iter().find(|range| number(range).contains(&slot)).map(|range| range.node)
    }

    fn slot(number: u16) -> Slot {
        Slot::from_number(number).unwrap()
    }

    #[test]
    fn slots_that_nobody_claims_have_no_node() {
        let mut table = SlotTable::default();
        assert!(table.ranges().is_empty());
        assert!(table.merge(&says(X, &[(X, 1, 0..=99), (Y, 2, 200..=16_383)])));
        assert_eq!([owner(&table, 0), owner(&table, 150), owner(&table, 200)], [Some(X), None, Some(Y)]);
        assert_eq!(table.ranges().len(), 2);
        assert!(!table.merge(&says(Y, &[(X, 1, 0..=99), (Y, 2, 200..=16_383)])), "nothing new");
    }

    #[test]
    fn l5_a_failover_is_believed_at_once_and_an_old_view_never_takes_it_back() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 1, 0..=16_383)]));
        assert!(table.merge(&says(Z, &[(Y, 4, 0..=16_383)])));
        // The old master is back and still claims the slots, and so does a node that does not know about the
        // failover.
        assert!(!table.merge(&says(X, &[(X, 1, 0..=16_383)])));
        assert!(!table.merge(&says(Z, &[(X, 1, 0..=16_383)])));
        assert_eq!(owner(&table, 7), Some(Y));
    }

    #[test]
    fn a_node_that_denies_a_slot_itself_is_believed() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 9, 0..=10)]));
        assert!(!table.merge(&says(Z, &[(Y, 3, 0..=10)])));
        assert!(table.merge(&says(X, &[(Y, 3, 0..=10)])));
        assert_eq!(owner(&table, 5), Some(Y));
    }

    #[test]
    fn a_node_that_is_forgotten_holds_nothing_any_more() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 9, 0..=10)]));
        let mut without_x = says(Z, &[(Y, 0, 0..=10)]);
        without_x.known.remove(&X);
        assert!(table.merge(&without_x));
    }

    #[test]
    fn slots_that_most_masters_and_their_own_have_dropped_have_no_node() {
        let mut table = SlotTable::default();
        let (whole, rest) =
            ([(X, 1, 0..=99), (Y, 2, 100..=199), (Z, 3, 200..=299)], [(Y, 2, 100..=199), (Z, 3, 200..=299)]);
        table.merge(&says(X, &whole));
        assert!(!table.merge(&says(Y, &rest)), "one of three");
        assert!(!table.merge(&says(Z, &rest)), "most, but not its own master");
        assert_eq!(owner(&table, 7), Some(X));
        assert!(table.merge(&says(X, &rest)));
        assert_eq!([owner(&table, 7), owner(&table, 107)], [None, Some(Y)]);
        assert!(table.merge(&says(X, &whole)), "it is given to X again");
        assert!(!table.merge(&says(Z, &rest)), "Z has not heard of it, and X has said so itself");
        assert_eq!(owner(&table, 7), Some(X));
    }

    #[test]
    fn one_node_that_was_reset_empties_nothing() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 1, 0..=99), (Y, 2, 100..=199), (Z, 3, 200..=299)]));
        assert!(!table.merge(&NodeView { known: HashSet::from([X]), ..says(X, &[]) }));
        assert_eq!([owner(&table, 7), owner(&table, 107)], [Some(X), Some(Y)]);
    }

    #[test]
    fn a_moved_counts_if_it_comes_from_the_node_that_we_believe_in() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 5, 0..=10)]));
        assert!(!table.moved(slot(3), Z, Y), "Z does not serve it, so it cannot give it away");
        assert!(table.moved(slot(3), X, Y));
        assert_eq!([owner(&table, 2), owner(&table, 3), owner(&table, 4)], [Some(X), Some(Y), Some(X)]);
        // Views from before the move change nothing. The view of Y itself confirms the move.
        assert!(!table.merge(&says(Z, &[(X, 5, 0..=10)])));
        assert!(!table.merge(&says(Y, &[(Y, 6, 3..=3)])));
        assert!(table.moved(slot(3), Y, X), "and back");
        assert!(table.moved(slot(99), Z, X), "nothing was known");
    }

    #[test]
    fn l5_a_slot_that_was_given_to_a_dead_node_comes_back() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 9, 0..=10)]));
        assert!(table.moved(slot(3), X, Y), "X has not heard that Y is dead");
        let of = |by, owner, epoch| {
            let failed = HashMap::from([(Y, 5)]);
            NodeView { failed, ..says(by, &[(owner, epoch, 3..=3)]) }
        };
        assert!(!table.merge(&of(Z, X, 9)), "the view may be from before");
        assert!(table.merge(&of(Z, Z, 7)), "no later claim than the giver's, but Y is dead");
        assert_eq!(owner(&table, 3), Some(Z));
    }

    #[test]
    fn l5_a_giver_takes_back_a_slot_that_was_redirected_to_it() {
        let mut table = SlotTable::default();
        table.merge(&says(X, &[(X, 9, 0..=10)]));
        assert!(table.moved(slot(3), X, Y));
        assert!(table.moved(slot(3), Y, Z), "the epoch is that of X, the giver is Y");
        assert!(!table.merge(&says(X, &[(Y, 5, 3..=3)])), "the view may be from before");
        assert!(table.merge(&says(Y, &[(Y, 5, 3..=3)])));
        assert_eq!(owner(&table, 3), Some(Y));
    }

    #[test]
    fn whatever_order_views_come_in_the_highest_epoch_wins() {
        let views = [
            says(X, &[(X, 1, 0..=100)]),
            says(Y, &[(Y, 2, 0..=50), (X, 1, 51..=100)]),
            says(Z, &[(Y, 2, 0..=50), (Z, 3, 51..=100)]),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut table = SlotTable::default();
            for view in order {
                table.merge(&views[view]);
            }
            assert_eq!([owner(&table, 10), owner(&table, 80)], [Some(Y), Some(Z)], "{order:?}");
        }
    }
}
