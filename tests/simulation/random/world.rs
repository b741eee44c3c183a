//! One run: builds the world, lets it go wrong, heals it, and judges what is left.

use leasehold::{Engine, FencingMode};
use leasehold_memory::{Faults, Faulty};
use leasehold_tests::conservation::assert_balanced;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use super::{
    chaos,
    chaos_of_nodes::Chaos,
    client::Client,
    history::{History, Totals},
};
use crate::fixture::{
    Cluster, Data, builder, engine, millis, now, pass, seconds, settles_within, timed, until,
};

/// Plain, fenced, plain or spin, and any of the three.
pub const NAMES: [&str; 4] = ["orders", "ledger", "nightly", "mixed"];
/// The fair lock.
pub const LINE: &str = "printer";
/// The read/write lock.
pub const SHARED: &str = "prices";

/// What the servers do in a run, besides standing still, losing their connections and handing each other slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Steady,
    /// They restart and fail over with what they know.
    DataKept,
    /// And without. Exclusion is not promised then, and not checked.
    DataLost,
}

impl Kind {
    fn any(rng: &mut StdRng) -> Self {
        match rng.random_range(0..8) {
            0..5 => Self::Steady,
            5..7 => Self::DataKept,
            _ => Self::DataLost,
        }
    }

    /// What a server knows that follows another one, if any does.
    pub fn follower(self) -> Option<Data> {
        match self {
            Self::Steady => None,
            Self::DataKept => Some(Data::Kept),
            Self::DataLost => Some(Data::Lost),
        }
    }
}

pub struct World {
    cluster: Cluster,
    processes: Vec<Process>,
    history: History,
    kind: Kind,
    rng: StdRng,
}

struct Process {
    engine: Engine,
    faults: Faults,
}

impl World {
    pub fn run(seed: u64) -> Totals {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            // The phase of the engines' ticks is that of the clock: the same in each repetition, to a millisecond.
            until(leasehold::clock::Instant::from_nanos(
                (now().as_nanos() / 1_000_000_000 + 1) * 1_000_000_000,
            ))
            .await;
            World::new(seed).await.live().await
        })
    }

    async fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let cluster = Cluster::new(rng.random_range(1..4));
        let kind = Kind::any(&mut rng);
        let mut processes = vec![];
        for number in 0..rng.random_range(2..5) {
            // A lost counter begins at 1 again. The history tells leases apart by their tokens.
            let counts = number % 2 == 1 && kind != Kind::DataLost;
            let fencing = if counts { FencingMode::Counter } else { FencingMode::Hybrid };
            let transport = Faulty::new(cluster.clone());
            let engine = builder(&transport)
                .fencing(fencing)
                .unavailable_after(seconds(4))
                .metrics()
                .build()
                .await
                .expect("an engine");
            processes.push(Process { engine, faults: transport.faults() });
        }
        Self { cluster, processes, history: History::default(), kind, rng }
    }

    async fn live(mut self) -> Totals {
        let end = now() + millis(self.rng.random_range(8_000..25_000));
        let (mut clients, mut chaos, mut ears) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        for process in 0..self.processes.len() {
            ears.spawn(self.history.clone().hear_losses(self.processes[process].engine.clone()));
            chaos.spawn(chaos::harm(
                self.processes[process].faults.clone(),
                self.history.clone(),
                self.fork(),
            ));
            for _ in 0..self.rng.random_range(1..5) {
                clients.spawn(self.client(process).work_until(end));
            }
        }
        let chaos_of_nodes = Chaos::new(self.cluster.clone(), self.kind, self.history.clone(), self.fork());
        chaos.spawn(chaos_of_nodes.reign());
        self.end_one_early().await;
        until(end).await;
        chaos.shutdown().await;
        self.cluster.heal();
        self.processes.iter().for_each(|process| process.faults.clear());
        self.await_clients(clients).await;
        self.settle().await;
        ears.shutdown().await;
        self.judge().await
    }

    // The longest wait is 20 s, and the longest hold a little more.
    async fn await_clients(&self, mut clients: JoinSet<()>) {
        let give_up = now() + seconds(90);
        while !clients.is_empty() {
            tokio::select! {
                done = clients.join_next() => done.expect("some are left").expect("a client that did not panic"),
                () = until(give_up) => {
                    let seen: Vec<_> = self.processes.iter().map(|process| process.engine.snapshot()).collect();
                    panic!("{} clients hang: {seen:#?}", clients.len());
                }
            }
        }
    }

    fn fork(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.rng.random())
    }

    fn client(&mut self, process: usize) -> Client {
        let engine = self.processes[process].engine.clone();
        let (scope, history, rng) = (engine.reentry(), self.history.clone(), self.fork());
        Client { engine, scope, process: process as u32, history, rng, fenced: false }
    }

    // In every fourth run an engine is shut down in the middle.
    async fn end_one_early(&mut self) {
        if !self.rng.random_ratio(1, 4) {
            return;
        }
        pass(millis(self.rng.random_range(1_000..7_000))).await;
        self.history.count(|totals| totals.ended_engines += 1);
        let timeout = millis(self.rng.random_range(0..3_000));
        self.processes[0].engine.shutdown(timeout).await;
    }

    // L6: nothing is left in any engine; S5: nothing is held by nobody.
    async fn settle(&self) {
        let was_shut_down = self.history.totals().ended_engines > 0;
        for process in &self.processes[usize::from(was_shut_down)..] {
            // An owner that was open at a former run of the server is closed when its ttl (30 s at most), its margin and
            // a timeout are over, and is looked at every 5 s at least.
            settles_within(&process.engine, seconds(40)).await;
        }
        if was_shut_down {
            pass(seconds(35)).await; // what it could not confirm ends by its ttl
        }
        let observer = engine(&self.cluster).await;
        // The place of a caller that has left stays in the line if its release was lost until the ttl of its ask was over, or
        // if its engine has ended. It is removed 4 s after the first look.
        let left = observer.fair_lock(LINE).describe().await.expect("memory answers").line;
        let (lease, took) = timed(observer.fair_lock(LINE).acquire()).await;
        lease.expect("all is well again").release().await.expect("memory answers");
        let most = if left.is_empty() { millis(20) } else { millis(4_100) };
        assert!(took <= most, "{LINE}: {took:?} behind {left:?}");
        settles_within(&observer, seconds(1)).await;
        for name in NAMES.into_iter().chain(["scoped"]) {
            assert!(
                !observer.lock(name).is_locked().await.expect("memory answers"),
                "{name} is held by nobody"
            );
        }
        assert!(!observer.fair_lock(LINE).is_locked().await.expect("memory answers"), "S5: {LINE}");
        assert!(!observer.rw_lock(SHARED).read().is_locked().await.expect("memory answers"), "S5: {SHARED}");
        assert_eq!(self.cluster.watched_keys(), 0, "L6");
    }

    async fn judge(self) -> Totals {
        for process in &self.processes {
            let seen = process.engine.snapshot();
            assert_eq!(seen.granted, seen.released + seen.lost + seen.held, "conservation: {seen:?}");
            assert_eq!(seen.held + seen.waiting, 0, "{seen:?}");
            assert_balanced(&process.engine);
        }
        if self.kind != Kind::DataLost {
            self.history.judge_exclusion();
            self.history.judge_readers_and_writers();
        }
        for process in self.processes.iter().skip(1) {
            let locks = NAMES.map(|name| process.engine.lock(name));
            for lock in locks.into_iter().chain([process.engine.fair_lock(LINE)]) {
                let (lease, took) = timed(lock.acquire()).await;
                assert!(lease.expect("all is well again").is_held() && took <= millis(20), "{took:?}");
            }
        }
        self.history.totals()
    }
}
