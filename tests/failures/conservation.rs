//! What callers are told is what the metrics say, class by class, and nothing is counted twice or forgotten, on each
//! topology and while a server stands still for longer than a ttl.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, EngineBuilder};
use leasehold_tests::{
    conservation::{Numbers, assert_balances_within},
    harness::{deployment::Topology, seed::seed},
};
use rand::{SeedableRng, rngs::StdRng};
use tokio::task::{JoinSet, block_in_place};

use crate::{
    fixture::{Fixture, SECOND, until},
    life::{Life, Told},
};

leasehold_tests::on_every_topology!(conservation_holds_class_by_class_in_lives_of_all_kinds);

async fn conservation_holds_class_by_class_in_lives_of_all_kinds(topology: Topology) {
    let mut rng = StdRng::seed_from_u64(seed());
    let fixture = Fixture::of_topology(topology);
    let engines = [engine(fixture.builder()).await, engine(fixture.builder_beside()).await];
    let told = [Told::default(), Told::default()];
    let lives = Lives::begin(&engines, &told, &mut rng);
    until("they are at it", || told.iter().all(|told| told.leases() >= 20.0)).await;
    let insisting = Life::new(&engines[0], &told[0], &mut rng);
    stand_still(&fixture, &engines[0], insisting).await;
    let missing = || ALL.into_iter().filter(|outcome| !told.iter().any(|told| told.has(outcome)));
    let all_told = tokio::time::timeout(PATIENCE, async {
        while missing().next().is_some() {
            tokio::time::sleep(SECOND / 20).await;
        }
    });
    assert!(all_told.await.is_ok(), "never told: {:?}", missing().collect::<Vec<_>>());
    lives.end().await;
    for (engine, told) in engines.iter().zip(&told) {
        block_in_place(|| assert_balances_within(PATIENCE, engine));
        println!("{told:?}");
        told.assert_is_what(&Numbers::of(engine));
        let seen = engine.snapshot();
        assert_eq!(seen.held + seen.waiting, 0, "{seen:?}");
    }
    assert_holds_at_a_shutdown(&engines[0], &engines[1]).await;
}

async fn engine(builder: EngineBuilder) -> Engine {
    builder.ttl(TTL).unavailable_after(SECOND).metrics().build().await.expect("an engine")
}

/// A server stands still until leases on it are lost. They are of the default class, which nobody else is of. One caller
/// insists meanwhile on a lock of that server, so that one at least hears that it is unavailable.
async fn stand_still(fixture: &Fixture, engine: &Engine, mut insisting: Life) {
    let mut held = Vec::new();
    for n in 0..LONG {
        held.push(engine.lock(format!("{{k}}long{n}")).acquire().await.expect("a lease"));
    }
    fixture.server.stop().expect("stopped");
    let insisting = tokio::spawn(async move { insisting.insist("{k}insisted").await });
    until("they are lost", || held.iter().all(|lease| !lease.is_held())).await;
    for lease in &held {
        lease.lost().await;
    }
    insisting.await.expect("no panic");
    fixture.server.cont().expect("continued");
    drop(held); // which changes nothing
    // Their holders may hear of it a moment before the metrics do. Sentinels may have another master take over meanwhile,
    // which says that they are not ours.
    let lost = || Numbers::of(engine).sum("leasehold_leases_lost_total", "default");
    until("their loss is counted", || lost() == LONG as f64).await;
}

/// With leases held and callers waiting, and when both are told of the end.
async fn assert_holds_at_a_shutdown(engine: &Engine, other: &Engine) {
    let held = engine.lock("a").class("orders").acquire().await.expect("free");
    let theirs = other.lock("b").class("ledger").acquire().await.expect("free");
    let waiting: Vec<_> = ["a", "b", "b"]
        .map(|name| tokio::spawn(engine.lock(name).class("jobs").acquire()))
        .into_iter()
        .collect();
    until("they wait", || engine.snapshot().waiting == 3).await;
    let before = Numbers::of(engine);
    assert_eq!(["leasehold_held", "leasehold_waiters"].map(|gauge| before.sum(gauge, "orders")), [1.0, 0.0]);
    assert_eq!(["leasehold_held", "leasehold_waiters"].map(|gauge| before.sum(gauge, "jobs")), [0.0, 3.0]);
    block_in_place(|| assert_balances_within(PATIENCE, engine));
    engine.shutdown(PATIENCE).await;
    for waiting in waiting {
        waiting.await.expect("no panic").expect_err("the engine has ended");
    }
    block_in_place(|| assert_balances_within(PATIENCE, engine));
    let after = Numbers::of(engine);
    let rise = |metric, labels: &[&str]| after.one(metric, labels) - before.one(metric, labels);
    assert_eq!(rise("leasehold_acquire_total", &["jobs", "exclusive", "error"]), 3.0);
    assert_eq!(rise("leasehold_leases_lost_total", &["orders", "exclusive", "shutdown"]), 1.0);
    drop(held);
    theirs.release().await.expect("ours to the end");
    block_in_place(|| assert_balances_within(PATIENCE, other));
}

/// Callers of several engines who go on until they are told to end.
struct Lives {
    over: Arc<AtomicBool>,
    all: JoinSet<()>,
}

impl Lives {
    fn begin(engines: &[Engine; 2], told: &[Told; 2], rng: &mut StdRng) -> Self {
        let (over, mut all) = (Arc::<AtomicBool>::default(), JoinSet::new());
        for (engine, told) in engines.iter().zip(told).cycle().take(LIVES) {
            all.spawn(Life::new(engine, told, rng).lead(over.clone()));
        }
        Self { over, all }
    }

    async fn end(mut self) {
        self.over.store(true, Ordering::SeqCst);
        while let Some(life) = self.all.join_next().await {
            life.expect("no panic");
        }
    }
}

const ALL: [&str; 7] = ["lease", "busy", "timeout", "cancelled", "error", "released", "already lost"];
const LIVES: usize = 8;
const LONG: usize = 3;
const TTL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);
