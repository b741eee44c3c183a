//! Seeded tests of the whole engine in paused time, over the memory transport and its faults.

#![allow(clippy::disallowed_methods)]

use leasehold::{AcquireError, Engine, LossReason};
use leasehold_memory::MemoryTransport;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn pair() {
    let engine = Engine::builder(MemoryTransport::new()).on_current_runtime().build().await.unwrap();
    let lease = engine.lock("a").acquire().await.unwrap();
    assert!(lease.is_held());
    assert!(engine.lock("a").try_acquire().await.unwrap().is_none());
    let err = engine.lock("a").wait(Duration::from_secs(2)).acquire().await.unwrap_err();
    assert!(matches!(err, AcquireError::TimedOut { .. }), "{err}");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
    let again = engine.lock("a").try_acquire().await.unwrap().unwrap();
    println!("{:?}", engine.snapshot());
    drop(again);
    tokio::time::sleep(Duration::from_millis(10)).await;
    println!("{:?}", engine.snapshot());
}

#[tokio::test]
async fn own_threads() {
    let engine = Engine::builder(MemoryTransport::new()).build().await.unwrap();
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        let lease = engine.lock("a").acquire().await.unwrap();
        lease.release().await.unwrap();
    }
    println!("{:?} per pair", start.elapsed() / 1000);
    let report = engine.shutdown(Duration::from_secs(1)).await;
    println!("{report:?} {:?}", engine.snapshot());
    let _ = LossReason::Expired;
}
