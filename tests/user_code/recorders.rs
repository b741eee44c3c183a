//! A recorder that blocks, and one that is slow.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use leasehold::{AcquireError, Engine, clock::Clock, metrics::EVENTS_MAX};
use leasehold_memory::MemoryTransport;
use leasehold_tests::{
    conservation::assert_balances_within, every_event::EveryEvent, harness::stall::unless_stalled_for,
};

/// Whoever comes to it waits until it is opened. Clones are the same.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn pass(&self) {
        let is_open = self.0.0.lock().expect("no panic under it");
        let _open = self.0.1.wait_while(is_open, |is_open| !*is_open).expect("no panic under it");
    }

    pub fn open(&self) {
        *self.0.0.lock().expect("no panic under it") = true;
        self.0.1.notify_all();
    }
}

pub fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work);
}

#[test]
fn a_recorder_that_blocks_costs_no_lease_and_no_limit() {
    unless_stalled_for(SHORT, || block_on(blocked()));
}

async fn blocked() {
    let (gate, told) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
    let recorder = EveryEvent({
        let (gate, told) = (gate.clone(), told.clone());
        move |event| {
            gate.pass();
            told.lock().expect("no panic under it").push(event);
        }
    });
    let memory = MemoryTransport::new();
    let building = Engine::builder(memory.clone()).ttl(TTL).metrics().recorder(recorder);
    let engine = building.build().await.expect("an engine");
    let mut losses = engine.losses();
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(engine.lock(format!("{number}")).acquire().await.expect("free"));
    }
    let short = engine.lock("short").no_renewal().acquire().await.expect("free");
    let begun = Clock::Boot.now();
    let refused = engine.lock("0").wait(SHORT).acquire().await.expect_err("held");
    assert!(matches!(refused, AcquireError::TimedOut { .. }), "{refused}");
    assert!(Clock::Boot.now() - begun < 2 * SHORT, "{:?}", Clock::Boot.now() - begun);
    short.lost().await;
    assert!(losses.try_next().is_some(), "the loss is told");
    tokio::time::sleep(3 * TTL).await;
    assert!(held.iter().all(|lease| lease.is_held()), "renewed for 3 ttls");
    drop(short);
    let released = held.len();
    drop(held);
    assert_balances_within(TTL, &engine);
    let begun = Clock::Boot.now();
    let report = engine.shutdown(SHORT).await;
    assert!(
        report.unconfirmed.is_empty() && Clock::Boot.now() - begun < 2 * SHORT,
        "{report:?}, {:?}",
        Clock::Boot.now() - begun
    );
    assert!(told.lock().expect("no panic under it").is_empty(), "it has blocked until now");
    gate.open();
    let seen = engine.snapshot();
    drop(engine);
    // The recorder's thread tells what waits, then ends and drops the recorder.
    while Arc::strong_count(&told) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = told.lock().expect("no panic under it");
    let count = |event| told.iter().filter(|told| **told == event).count();
    assert_eq!((count("granted"), count("released"), count("lost")), (released + 1, released, 1));
    assert_eq!((seen.events_dropped, seen.recorder_panicked), (0, false));
    let first = |event| told.iter().position(|told| *told == event).expect("told");
    assert!(first("wait_started") < first("asked") && first("asked") < first("granted"), "in their order");
}

#[test]
fn what_a_blocked_recorder_has_no_room_for_is_dropped_and_counted() {
    block_on(async {
        let gate = Gate::default();
        let recorder = EveryEvent({
            let gate = gate.clone();
            move |_| gate.pass()
        });
        let building = Engine::builder(MemoryTransport::new()).metrics().recorder(recorder);
        let engine = building.build().await.expect("an engine");
        let (scope, lock) = (engine.reentry(), engine.lock("a"));
        let held = lock.clone().reentry(&scope).acquire().await.expect("free");
        // Two events each.
        for _ in 0..EVENTS_MAX {
            drop(lock.clone().reentry(&scope).acquire().await.expect("ours"));
        }
        let seen = engine.snapshot();
        assert!(seen.events_dropped >= EVENTS_MAX as u64 && seen.held == 1, "{seen:?}");
        gate.open();
        held.release().await.expect("ours to the end");
        assert_balances_within(TTL, &engine);
    });
}

#[test]
fn a_slow_recorder_costs_no_lease() {
    unless_stalled_for(SHORT, || {
        block_on(async {
            let recorder = EveryEvent(|_| {
                let begun = Clock::Boot.now();
                while Clock::Boot.now() - begun < Duration::from_micros(50) {
                    std::hint::spin_loop();
                }
            });
            let building = Engine::builder(MemoryTransport::new()).ttl(TTL).recorder(recorder);
            let engine = building.build().await.expect("an engine");
            // A renewal is two events of each lease: 40,000 of them are 4 s of this recorder in each ttl of 2 s.
            let names: Vec<String> = (0..40_000).map(|number| number.to_string()).collect();
            let held = engine.acquire_all(&names).await;
            let held: Vec<_> = held.into_iter().map(|lease| lease.expect("free")).collect();
            tokio::time::sleep(3 * TTL).await;
            assert_eq!(held.iter().filter(|lease| !lease.is_held()).count(), 0);
            assert_eq!(engine.snapshot().lost, 0);
        });
    });
}

const TTL: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(500);
