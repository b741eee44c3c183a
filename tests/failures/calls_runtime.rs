//! An engine whose calls run on a runtime of the user, on real servers: locks exclude, and every call ends when that runtime
//! is shut down.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::Engine;
use leasehold_tests::harness::deployment::Topology;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::fixture::{Fixture, until};

leasehold_tests::on_every_topology!(
    s1_callers_of_two_engines_exclude_each_other_with_calls_on_their_runtime,
    l7_with_the_runtime_of_the_calls_every_call_to_a_server_ends,
);

async fn s1_callers_of_two_engines_exclude_each_other_with_calls_on_their_runtime(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let one = fixture.builder().calls_on_current_runtime().build().await.expect("an engine");
    let other = fixture.builder_beside().build().await.expect("an engine");
    let (inside, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let lock = [&one, &other][caller % 2].lock("contended");
        let (inside, turns) = (inside.clone(), turns.clone());
        callers.spawn(async move {
            for _ in 0..TURNS {
                let lease = lock.acquire().await.expect("a turn");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                tokio::task::yield_now().await;
                turns.fetch_add(1, Ordering::SeqCst);
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                lease.release().await.expect("ours");
            }
        });
    }
    callers.join_all().await;
    assert_eq!(turns.load(Ordering::SeqCst), CALLERS as u64 * TURNS);
}

async fn l7_with_the_runtime_of_the_calls_every_call_to_a_server_ends(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let runtime = runtime();
    let building = fixture.builder().ttl(TTL).calls_on_current_runtime().build();
    let engine = runtime.spawn(building).await.expect("no panic").expect("an engine");
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(acquire_and_release_until_refused(engine.clone(), caller % KEYS));
    }
    until("they are at it", || engine.snapshot().granted > 1_000).await;
    runtime.shutdown_background();
    let ended = tokio::time::timeout(PATIENCE, callers.join_all()).await;
    assert!(ended.is_ok(), "a call waits for a runtime that was shut down");
    assert_eq!(engine.snapshot().held, 0);
    let other = fixture.builder_beside().build().await.expect("an engine");
    for key in 0..KEYS {
        let free = tokio::time::timeout(PATIENCE, other.lock(format!("{key}")).acquire()).await;
        free.expect("free when the ttl is over").expect("granted").release().await.expect("ours");
    }
}

async fn acquire_and_release_until_refused(engine: Engine, key: usize) {
    while let Ok(lease) = engine.lock(format!("{key}")).acquire().await {
        if engine.snapshot().granted % 3 > 0 {
            let _ = lease.release().await; // the end of the runtime may come first
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

const CALLERS: usize = 64;
const KEYS: usize = 40;
const TURNS: u64 = 20;
const TTL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);
