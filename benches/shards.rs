//! What the number of shards costs and gives: commands a renewal, counted in virtual time, and pairs per second when
//! eight threads register and release at once, on memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineBuilder, EngineConfig, Event, Recorder, metrics::EngineEvent};
use leasehold_memory::MemoryTransport;
use tokio::{runtime, task::JoinSet};

use crate::{rounds::Spread, size::Size, table::Table};

const SHARDS: [usize; 3] = [1, 8, 64];
const THREADS: usize = 8;
/// Of each thread.
const TASKS: usize = 16;

pub(crate) fn measure(table: &mut Table, size: Size) {
    for leases in [1_000, 100_000].into_iter().filter(|leases| *leases <= size.wheel) {
        for shards in SHARDS {
            let each = commands_per_renewal(shards, leases);
            let what = format!("{leases} leases, shards: {shards}: commands a renewal");
            table.add("shards", what, Spread::exactly(each), "commands");
        }
    }
    let mut rounds = SHARDS.map(|_| Vec::new());
    for _ in 0..size.rounds {
        for (shards, figures) in SHARDS.into_iter().zip(&mut rounds) {
            figures.push(pairs_per_second(shards, 5 * size.pairs));
        }
    }
    for (shards, figures) in SHARDS.into_iter().zip(&rounds) {
        let what = format!("memory, {THREADS} threads, shards: {shards}");
        table.add("shards", &what, Spread::of(figures.clone()), "pairs/s");
        table.add("shards", what + " / 8", Spread::of_ratios(figures, &rounds[1]), "x");
    }
}

fn builder(shards: usize) -> EngineBuilder {
    let mut config = EngineConfig::default();
    config.shards = shards;
    Engine::builder(MemoryTransport::new()).config(config)
}

/// Each thread has a runtime of its own, and names that nobody else wants.
fn pairs_per_second(shards: usize, pairs: usize) -> f64 {
    let building = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let engine = building.block_on(builder(shards).build()).expect("memory is always there");
    let (each, begin) = ((pairs / THREADS / TASKS).max(1), Instant::now());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = engine.clone();
            scope.spawn(move || {
                let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(pairs_of(engine, thread, each));
            });
        }
    });
    (each * THREADS * TASKS) as f64 / begin.elapsed().as_secs_f64()
}

async fn pairs_of(engine: Engine, thread: usize, each: usize) {
    let mut running = JoinSet::new();
    for task in 0..TASKS {
        let lock = engine.lock(format!("shards:{thread}:{task}"));
        running.spawn(async move {
            for _ in 0..each {
                lock.acquire().await.expect("nobody else wants it").release().await.expect("it is ours");
            }
        });
    }
    running.join_all().await;
}

/// One scheduler fills the batches, so the number of shards should not matter.
fn commands_per_renewal(shards: usize, leases: usize) -> f64 {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let sent = Sent::default();
        let building = builder(shards).recorder(sent.clone()).on_current_runtime().build();
        let engine = building.await.expect("memory is always there");
        let period = engine_period();
        let mut held = Vec::with_capacity(leases);
        for number in 0..leases {
            held.push(engine.lock(format!("{number:032}")).acquire().await.expect("nobody else wants it"));
            if number % (leases / TICKS) == 0 {
                tokio::time::sleep(period / TICKS as u32).await;
            }
        }
        tokio::time::sleep(period).await;
        let before = sent.read();
        tokio::time::sleep(3 * period).await;
        let after = sent.read();
        (after.0 - before.0) as f64 / (after.1 - before.1) as f64
    })
}

fn engine_period() -> Duration {
    EngineConfig::default().ttl() / 3
}

/// Batches and their members.
#[derive(Clone, Debug, Default)]
struct Sent(Arc<(AtomicU64, AtomicU64)>);

impl Sent {
    fn read(&self) -> (u64, u64) {
        (self.0.0.load(Ordering::Relaxed), self.0.1.load(Ordering::Relaxed))
    }
}

impl Recorder for Sent {
    fn record(&self, event: &Event<'_>) {
        if let Event::Engine(EngineEvent::RenewalBatch { members, .. }) = event {
            self.0.0.fetch_add(1, Ordering::Relaxed);
            self.0.1.fetch_add(*members as u64, Ordering::Relaxed);
        }
    }
}

/// Leases come evenly over the ticks of one period.
const TICKS: usize = 200;
