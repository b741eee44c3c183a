//! What goes wrong with the servers during a run: slots are handed over, nodes stand still, lose their connections, come,
//! go, restart and fail over.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use super::{
    history::History,
    world::{Kind, NAMES},
};
use crate::fixture::{Cluster, millis, part_of_name, pass};

pub struct Chaos {
    cluster: Cluster,
    kind: Kind,
    history: History,
    rng: StdRng,
    /// The number of the next node that has never been there.
    newcomer: u32,
}

impl Chaos {
    pub fn new(cluster: Cluster, kind: Kind, history: History, rng: StdRng) -> Self {
        Self { cluster, kind, history, rng, newcomer: 10 }
    }

    /// Until it is dropped.
    pub async fn reign(mut self) {
        loop {
            self.rest(3_000).await;
            match self.rng.random_range(0..10) {
                0..4 => self.hand_over().await,
                4..6 => self.stand_still().await,
                6 => self.disconnect().await,
                7 => self.add(),
                _ => self.follow().await,
            }
        }
    }

    // For a while the nodes know and the topology does not.
    async fn hand_over(&mut self) {
        self.history.count(|totals| totals.moves += 1);
        let (part, to) = (self.part(), self.node());
        self.cluster.answer_elsewhere(part, to);
        self.rest(1_500).await;
        self.cluster.migrate(part, to);
    }

    async fn stand_still(&mut self) {
        let node = self.node();
        self.cluster.hang(node);
        self.rest(2_500).await;
        if self.rng.random_ratio(1, 3) {
            // Its slots go to another one, without which it cannot lose them: it wakes up too late.
            self.fail_over(node);
        } else {
            self.cluster.wake(node);
        }
    }

    async fn disconnect(&mut self) {
        let node = self.node();
        self.cluster.disconnect(node);
        self.rest(2_500).await;
        self.cluster.connect(node);
    }

    fn add(&mut self) {
        self.cluster.add(self.newcomer);
        self.newcomer += 1;
    }

    // Another run, or another node, has the slots of one that was there.
    async fn follow(&mut self) {
        let Some(data) = self.kind.follower() else { return };
        let node = self.node();
        if self.rng.random() {
            self.history.count(|totals| totals.restarts += 1);
            self.cluster.restart(node, data);
        } else {
            self.fail_over(node);
        }
    }

    fn fail_over(&mut self, node: u32) {
        let Some(data) = self.kind.follower() else { return self.cluster.wake(node) };
        self.history.count(|totals| totals.failovers += 1);
        self.newcomer += 1;
        self.cluster.fail_over(node, self.newcomer, data);
        self.newcomer += 1;
    }

    // One that a name lives in.
    fn part(&mut self) -> usize {
        part_of_name(NAMES.choose(&mut self.rng).expect("some"))
    }

    fn node(&mut self) -> u32 {
        *self.cluster.nodes().choose(&mut self.rng).expect("some")
    }

    async fn rest(&mut self, longest_ms: u64) {
        pass(millis(self.rng.random_range(5..longest_ms))).await;
    }
}
