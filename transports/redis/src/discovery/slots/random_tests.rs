//! The slot table next to a cluster whose nodes learn about changes late, or never. The properties: the table holds
//! only claims that some node has made, no claim is replaced by an older one, and enough polls lead to the right
//! table, whichever nodes are dead.

use super::*;
use crate::test_rng::TestRng;

/// A cluster: the truth, and the view of each node.
struct Cluster {
    test_rng: TestRng,
    table: SlotTable,
    /// The truth: for each slot, its master and the epoch of the claim.
    truth: [(usize, u64); SLOTS_USED],
    views: Vec<View>,
    alive: [bool; NODES],
    epoch: u64,
}

#[derive(Clone)]
struct View {
    owners: [(usize, u64); SLOTS_USED],
    /// The configuration epoch of each node, as far as this node knows.
    epochs: [u64; NODES],
    failed: [bool; NODES],
}

impl Cluster {
    fn new(test_rng: TestRng) -> Self {
        let truth = std::array::from_fn(|slot| (slot % 2, 1 + (slot as u64) % 2));
        let mut epochs = [0; NODES];
        (epochs[0], epochs[1]) = (1, 2);
        let view = View { owners: truth, epochs, failed: [false; NODES] };
        let table = SlotTable::default();
        Self { test_rng, table, truth, views: vec![view; NODES], alive: [true; NODES], epoch: 2 }
    }

    fn step(&mut self) {
        let node = self.test_rng.below(NODES);
        match self.test_rng.below(12) {
            0 => self.migrate(node),
            1 => self.fail_over(node),
            2 => self.revive(node),
            3..6 => self.gossip(node),
            6..9 => self.ask(node),
            _ => self.request(),
        }
    }

    /// Moves one slot to `to`, which takes an epoch above all others, unless it already has it.
    fn migrate(&mut self, to: usize) {
        let slot = self.test_rng.below(SLOTS_USED);
        let from = self.truth[slot].0;
        if from == to || !self.alive[to] || !self.alive[from] {
            return;
        }
        if self.test_rng.one_in(3) {
            // The giver learns about the move first, and the migration stops there: both nodes redirect to each
            // other.
            self.views[from].owners[slot].0 = to;
            return;
        }
        let view = &self.views[to];
        let is_highest = view.epochs[to] == self.epoch;
        if !is_highest {
            self.epoch += 1;
        }
        let epoch = self.epoch;
        for node in [to, from] {
            self.views[node].owners[slot] = (to, epoch);
            self.views[node].epochs[to] = epoch;
        }
        self.rise(to, epoch);
        self.truth[slot] = (to, epoch);
    }

    /// `dead` stops. Another node takes over all its slots, and all voting masters know.
    fn fail_over(&mut self, dead: usize) {
        let to = (dead + 1 + self.test_rng.below(NODES - 1)) % NODES;
        if !self.alive[dead] || !self.alive[to] || self.alive.iter().filter(|alive| **alive).count() < 3 {
            return;
        }
        self.alive[dead] = false;
        self.epoch += 1;
        let epoch = self.epoch;
        for slot in 0..SLOTS_USED {
            if self.truth[slot].0 == dead {
                self.truth[slot] = (to, epoch);
                self.views[to].owners[slot] = (to, epoch);
            }
        }
        self.rise(to, epoch);
        self.views[to].failed[dead] = true;
    }

    /// A node has one epoch for all its claims.
    fn rise(&mut self, node: usize, epoch: u64) {
        self.views[node].epochs[node] = epoch;
        for slot in 0..SLOTS_USED {
            if self.truth[slot].0 == node {
                self.truth[slot].1 = epoch;
                self.views[node].owners[slot] = (node, epoch);
            }
        }
    }

    /// The node comes back with its old state, and without any news.
    fn revive(&mut self, node: usize) {
        self.alive[node] = true;
    }

    /// One node sends another its state and claims. Sometimes only the epoch arrives in time.
    fn gossip(&mut self, from: usize) {
        let to = self.test_rng.below(NODES);
        if !self.alive[from] || !self.alive[to] || from == to {
            return;
        }
        let sender = self.views[from].clone();
        let receiver = &mut self.views[to];
        if sender.epochs[from] < receiver.epochs[from] {
            return;
        }
        receiver.epochs[from] = sender.epochs[from];
        receiver.failed[from] = false;
        for node in (0..NODES).filter(|node| !self.alive[*node]) {
            receiver.failed[node] |= sender.failed[node];
        }
        for slot in 0..SLOTS_USED {
            let (owner, _) = receiver.owners[slot];
            let claims = sender.owners[slot].0 == from;
            // A node keeps a withdrawn claim until another node claims the slot.
            if claims && (owner == from || sender.epochs[from] > receiver.epochs[owner]) {
                receiver.owners[slot] = (from, sender.epochs[from]);
            }
        }
    }

    fn statement(&self, by: usize) -> NodeView {
        let view = &self.views[by];
        let owned = |node: usize| (0..SLOTS_USED).filter(move |slot| view.owners[*slot].0 == node);
        let slots = |node| owned(node).map(number).map(|slot| slot..=slot).collect::<Vec<_>>();
        let claims = |node| SlotClaims { node: id(node), epoch: view.epochs[node], slots: slots(node) };
        let failed = (0..NODES).filter(|node| view.failed[*node]);
        NodeView {
            by: id(by),
            known: (0..NODES).map(id).collect(),
            failed: failed.map(|node| (id(node), view.epochs[node])).collect(),
            masters: (0..NODES).map(claims).filter(|claims| !claims.slots.is_empty()).collect(),
        }
    }

    fn ask(&mut self, node: usize) {
        if !self.alive[node] {
            return;
        }
        let statement = self.statement(node);
        let before = self.table.claims.clone();
        let ranges = self.table.ranges();
        let has_changed = self.table.merge(&statement);
        assert_eq!(has_changed, ranges != self.table.ranges());
        self.check_given_way(&before, &statement);
    }

    /// A replaced claim is older than the new one, or its node has given up the slot, or is gone.
    fn check_given_way(&self, before: &[Option<Claim>], statement: &NodeView) {
        for (slot, before) in before.iter().enumerate() {
            let Some(before) = before else { continue };
            let after = self.table.claims[slot].expect("somebody claims it, by all views");
            let gave_up = gave_up(before, after.node, statement);
            assert!(after.epoch >= before.epoch || gave_up, "slot {slot}: {before:?} gave way to {after:?}");
            let is_said = statement.masters.iter().any(|claims| claims.node == after.node);
            assert!(after.node == before.node || is_said, "slot {slot}: {after:?} is nobody's word");
        }
    }

    /// Sends a request for a slot, which any node without that slot redirects.
    fn request(&mut self) {
        let slot = self.test_rng.below(SLOTS_USED);
        let Some(recorded) = self.table.claims[usize::from(number(slot))] else { return };
        let at = recorded.node.0 as usize;
        let to = self.views[at].owners[slot].0;
        if self.alive[at] && to != at {
            let slot = Slot::from_number(number(slot)).unwrap();
            assert!(self.table.moved(slot, id(at), id(to)), "the node that we believe in gives it away");
            assert!(!self.table.moved(slot, id(at), id(to)), "told twice");
        }
    }

    /// All live nodes agree, whichever nodes are dead. Each live node is polled once.
    fn settle(&mut self) {
        for _ in 0..4 {
            for from in 0..NODES {
                for to in (0..NODES).filter(|to| self.alive[*to]) {
                    self.views[to].owners = self.truth;
                    self.views[to].epochs[from] = self.views[from].epochs[from];
                    self.views[to].failed = self.alive.map(|alive| !alive);
                }
            }
        }
        let start = self.test_rng.below(NODES);
        (0..NODES).for_each(|node| self.ask((start + node) % NODES));
        for (slot, (owner, _)) in self.truth.iter().enumerate() {
            let recorded = self.table.claims[usize::from(number(slot))].expect("all are claimed");
            assert_eq!(recorded.node, id(*owner), "slot {slot}: {recorded:?}, alive {:?}", self.alive);
        }
    }
}

/// Whether `statement` itself justifies the change, whatever the epochs: it is by our node, or by the node that
/// redirected us to it, or it marks our node as failed.
fn gave_up(before: &Claim, after: NodeId, statement: &NodeView) -> bool {
    let is_givers = before.given_by == Some(after);
    let is_redirected = before.given_by.is_some() && !is_givers;
    let is_dead =
        statement.failed.get(&before.node).is_some_and(|epoch| *epoch >= before.epoch || is_redirected);
    statement.by == before.node || (is_givers && statement.by == after) || is_dead
}

fn id(node: usize) -> NodeId {
    NodeId(u32::try_from(node).unwrap())
}

/// Spreads the slots, so that ranges are split.
fn number(slot: usize) -> u16 {
    u16::try_from(slot * 2_000).unwrap()
}

#[test]
fn l5_no_claim_gives_way_to_an_older_one_and_in_the_end_the_table_is_right() {
    let mut cluster = Cluster::new(TestRng::from_env());
    for _ in 0..100 {
        for _ in 0..40 {
            cluster.step();
        }
        cluster.settle();
    }
}

const NODES: usize = 5;
const SLOTS_USED: usize = 6;
