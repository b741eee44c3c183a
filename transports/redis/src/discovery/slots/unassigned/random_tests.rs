//! An operator takes slots from nodes, one node after the other, and assigns slots again. The properties: a slot
//! that its own master claims stays, and once all nodes agree and were polled, the table equals their view.

use std::collections::HashMap;

use super::super::*;
use crate::test_rng::TestRng;

struct Cluster {
    test_rng: TestRng,
    table: SlotTable,
    /// The master of each slot, in the view of each node.
    views: [[Option<usize>; SLOTS_USED]; NODES],
}

impl Cluster {
    fn new(test_rng: TestRng) -> Self {
        let owners = std::array::from_fn(|slot| Some(slot % NODES));
        let mut cluster = Self { test_rng, table: SlotTable::default(), views: [owners; NODES] };
        cluster.ask_all();
        cluster
    }

    fn step(&mut self) {
        let (node, slot) = (self.test_rng.below(NODES), self.test_rng.below(SLOTS_USED));
        match self.test_rng.below(8) {
            0 => self.views[node][slot] = None,
            1 if self.views.iter().all(|view| view[slot].is_none()) => self.views[node][slot] = Some(node),
            2..4 => self.gossip(slot),
            _ => self.ask(node),
        }
    }

    /// A master that claims the slot informs a node that knows of no master for it.
    fn gossip(&mut self, slot: usize) {
        let to = self.test_rng.below(NODES);
        let claims = |node: &usize| self.views[*node][slot] == Some(*node);
        if let (Some(owner), None) = ((0..NODES).find(claims), self.views[to][slot]) {
            self.views[to][slot] = Some(owner);
        }
    }

    fn ask(&mut self, by: usize) {
        let view = self.views[by];
        let owned = |node: usize| (0..SLOTS_USED).filter(move |slot| view[*slot] == Some(node));
        let slots = |node| owned(node).map(number).map(|slot| slot..=slot).collect::<Vec<_>>();
        let masters =
            (0..NODES).map(|node| SlotClaims { node: id(node), epoch: 1 + node as u64, slots: slots(node) });
        let statement = NodeView {
            by: id(by),
            known: (0..NODES).map(id).collect(),
            failed: HashMap::new(),
            masters: masters.filter(|claims| !claims.slots.is_empty()).collect(),
        };
        let before = self.owners();
        self.table.merge(&statement);
        for (slot, (before, after)) in before.into_iter().zip(self.owners()).enumerate() {
            if let (Some(before), None) = (before, after) {
                assert_ne!(view[slot], Some(before), "slot {slot} was taken from who is said to serve it");
                let left_out = self.views.iter().filter(|view| view[slot].is_none()).count();
                assert!(left_out > 0, "slot {slot}");
            }
        }
    }

    fn owners(&self) -> [Option<usize>; SLOTS_USED] {
        std::array::from_fn(|slot| {
            self.table.claims[usize::from(number(slot))].map(|claim| claim.node.0 as usize)
        })
    }

    fn ask_all(&mut self) {
        let first = self.test_rng.below(NODES);
        (0..NODES).for_each(|node| self.ask((first + node) % NODES));
    }

    /// All nodes get the same view of each slot.
    fn settle(&mut self) {
        for slot in 0..SLOTS_USED {
            let claims = |node: &usize| self.views[*node][slot] == Some(*node);
            let owner = (0..NODES).find(claims);
            self.views.iter_mut().for_each(|view| view[slot] = owner);
        }
        self.ask_all();
        self.ask_all();
        assert_eq!(self.owners(), self.views[0]);
    }
}

fn id(node: usize) -> NodeId {
    NodeId(u32::try_from(node).unwrap())
}

fn number(slot: usize) -> u16 {
    u16::try_from(slot * 2_000).unwrap()
}

#[test]
fn slots_that_were_taken_from_all_are_vacant_and_those_that_were_given_again_are_not() {
    let mut test_rng = TestRng::from_env();
    for _ in 0..3 {
        let mut cluster = Cluster::new(test_rng.another());
        for _ in 0..10 {
            (0..40).for_each(|_| cluster.step());
            cluster.settle();
        }
    }
}

const NODES: usize = 3;
const SLOTS_USED: usize = 6;
