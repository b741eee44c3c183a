//! A hot lock between our processes and a client that needs milliseconds from a notice to its command, as other client
//! libraries do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    clock::Clock,
    key::LockKey,
    owner::OwnerMint,
    transport::{Call, HoldKind, Lane, LanePurpose, Op, OpenLane, Outcome, Transport, Watch},
};
use leasehold_memory::MemoryTransport;
use tokio::task::JoinSet;

use crate::fixture::{engine, millis, now, pass, seconds};

#[tokio::test(start_paused = true)]
async fn l5_a_slow_listener_gets_half_of_its_share() {
    for hold_ms in [1, 2, 5, 10, 100] {
        for reaction_ms in [3, 5] {
            let mut contest = Contest::new(millis(hold_ms));
            contest.processes(2).await;
            contest.listener(millis(reaction_ms)).await;
            let grants = contest.run().await;
            let all: u64 = grants.iter().sum();
            println!("holds of {hold_ms} ms, {reaction_ms} ms from a notice to a command: {grants:?}");
            assert!(grants.iter().all(|own| own * 6 >= all), "{grants:?} with holds of {hold_ms} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn l5_a_listener_that_does_not_want_the_lock_costs_a_fifth() {
    let mut alone = Contest::new(millis(1));
    alone.processes(1).await;
    let alone = alone.run().await[0];
    let mut watched = Contest::new(millis(1));
    watched.processes(1).await;
    let _watch = watched.watch().await;
    let watched = watched.run().await[0];
    println!("{alone} grants alone, {watched} beside a listener that does not want the lock");
    assert!(watched * 100 >= alone * 79, "{alone} {watched}");
}

#[tokio::test(start_paused = true)]
async fn l5_processes_of_our_own_share_alike_and_lose_no_time() {
    let mut contest = Contest::new(millis(2));
    contest.processes(4).await;
    let grants = contest.run().await;
    let all: u64 = grants.iter().sum();
    println!("{grants:?}");
    assert!(grants.iter().all(|own| own * 5 >= all), "{grants:?}");
    let held = millis(2) * u32::try_from(all).expect("few");
    assert!(held * 10 >= RUN * 9, "held for {held:?} of {RUN:?}: {grants:?}");
}

/// Contenders for one lock, and how many grants each has had.
struct Contest {
    transport: MemoryTransport,
    hold: Duration,
    grants: Vec<Arc<AtomicU64>>,
    tasks: JoinSet<()>,
}

impl Contest {
    fn new(hold: Duration) -> Self {
        Self { transport: MemoryTransport::new(), hold, grants: Vec::new(), tasks: JoinSet::new() }
    }

    /// Engines with 8 callers each.
    async fn processes(&mut self, count: usize) {
        for _ in 0..count {
            let engine = engine(&self.transport).await;
            let grants = self.counter();
            for _ in 0..8 {
                let (engine, grants, hold) = (engine.clone(), grants.clone(), self.hold);
                self.tasks.spawn(async move {
                    loop {
                        let lease = engine.lock("a").acquire().await.expect("a turn");
                        pass(hold).await;
                        grants.fetch_add(1, Ordering::Relaxed);
                        lease.release().await.expect("ours to the end");
                    }
                });
            }
        }
    }

    /// A client that always wants the lock. It sends one command so long after a notice, and none without one.
    async fn listener(&mut self, reaction: Duration) {
        let (lane, key, mint) = (self.lane().await, key(), OwnerMint::new());
        let (grants, hold) = (self.counter(), self.hold);
        self.tasks.spawn(async move {
            let mut watch = lane.watch(&key);
            loop {
                watch.observe();
                let (owner, execute_by) = (mint.mint(), now() + seconds(10));
                let call = |op| Call::new(key.clone(), HoldKind::Exclusive, op, owner, execute_by);
                let ask = call(Op::Acquire { ttl: seconds(30) });
                if let Outcome::Granted { .. } = lane.call_one(ask).await {
                    pass(hold).await;
                    grants.fetch_add(1, Ordering::Relaxed);
                    lane.call_one(call(Op::Release)).await.into_result().expect("an answer");
                } else {
                    watch.changed().await;
                }
                pass(reaction).await;
            }
        });
    }

    /// Of a client that listens and asks for nothing.
    async fn watch(&self) -> (Arc<dyn Lane>, Watch) {
        let lane = self.lane().await;
        let watch = lane.watch(&key());
        (lane, watch)
    }

    async fn lane(&self) -> Arc<dyn Lane> {
        let how = OpenLane::new(LanePurpose::Calls, Clock::Tokio, seconds(1));
        self.transport.open(how).await.expect("a lane")
    }

    fn counter(&mut self) -> Arc<AtomicU64> {
        let counter = Arc::<AtomicU64>::default();
        self.grants.push(counter.clone());
        counter
    }

    async fn run(mut self) -> Vec<u64> {
        pass(RUN).await;
        self.tasks.shutdown().await;
        self.grants.iter().map(|grants| grants.load(Ordering::Relaxed)).collect()
    }
}

fn key() -> Arc<LockKey> {
    LockKey::new("", "a").expect("a name")
}

const RUN: Duration = Duration::from_secs(20);
