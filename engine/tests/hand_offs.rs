//! Hand-offs between tasks on real threads, over the memory transport.

#![allow(clippy::disallowed_methods)] // real threads take real time

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use leasehold::{Engine, Lease};
use leasehold_memory::MemoryTransport;

const LONG: Duration = Duration::from_secs(60);

async fn engine() -> Engine {
    Engine::builder(MemoryTransport::new()).build().await.unwrap()
}

/// A lease, and a task that waits for it and says when it has it.
async fn wanted(engine: &Engine) -> (Lease, Arc<AtomicBool>) {
    let lease = engine.lock("a").acquire().await.unwrap();
    let (asked, got) = (engine.lock("a").wait(LONG).acquire(), Arc::new(AtomicBool::new(false)));
    let tell = got.clone();
    tokio::spawn(async move {
        let lease = asked.await.unwrap();
        tell.store(true, SeqCst);
        lease.release().await.unwrap();
    });
    while engine.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    (lease, got)
}

/// Computes on the thread of its task, without an await, until `got` or for some seconds.
fn compute_until(got: &AtomicBool) -> bool {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !got.load(SeqCst) && Instant::now() < give_up {
        std::thread::yield_now();
    }
    got.load(SeqCst)
}

#[tokio::test]
async fn who_releases_and_goes_on_without_an_await_does_not_keep_the_next_holder_from_running() {
    let engine = engine().await;
    for _ in 0..100 {
        let (lease, got) = wanted(&engine).await;
        lease.release().await.unwrap();
        assert!(
            compute_until(&got),
            "there is one thread, so the next holder ran before the release was over"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_drops_a_lease_and_goes_on_without_an_await_does_not_either() {
    let engine = engine().await;
    tokio::spawn(async move {
        for _ in 0..100 {
            let (lease, got) = wanted(&engine).await;
            drop(lease);
            assert!(compute_until(&got), "another thread runs the next holder");
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_tasks_on_many_threads_exclude_each_other_whatever_ends_their_calls() {
    let (engine, inside, counted) =
        (engine().await, Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for number in 0..64_u64 {
        let (engine, inside, counted) = (engine.clone(), inside.clone(), counted.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..300 {
                let acquire = engine.lock("a").wait(LONG).acquire();
                let lease = if (number + round) % 7 == 0 {
                    // Mostly too short, so that the call is dropped before the grant, with it or after it.
                    match tokio::time::timeout(Duration::from_micros(200 * (round % 5)), acquire).await {
                        Ok(lease) => lease.unwrap(),
                        Err(_) => continue,
                    }
                } else {
                    acquire.await.unwrap()
                };
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two tasks hold the lock");
                counted.fetch_add(1, SeqCst);
                assert!(lease.is_held());
                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                match (number + round) % 3 {
                    0 => drop(lease),
                    1 => drop(lease.release()),
                    _ => lease.release().await.unwrap(),
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(counted.load(SeqCst) > 64 * 250);
    let give_up = Instant::now() + LONG;
    loop {
        let seen = engine.snapshot();
        if seen.held + seen.waiting + seen.entries + seen.closing == 0 {
            assert_eq!(seen.lost, 0);
            return;
        }
        assert!(Instant::now() < give_up, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
