//! A grant that its caller does not take: the future of the call is alive and is not polled.

use std::pin::pin;

use leasehold_memory::MemoryTransport;

use crate::fixture::{Traffic, What, breathe, engine, millis, now, pass, poll_once, seconds, timed};

#[tokio::test(start_paused = true)]
async fn s7_a_grant_that_is_not_taken_is_not_renewed_and_ends_at_its_deadline() {
    let traffic = Traffic::new(MemoryTransport::new());
    let (engine, other) = (engine(&traffic).await, engine(&traffic).await);
    let first = engine.lock("a").acquire().await.unwrap();
    let queued = engine.lock("a").max_hold(seconds(60)).wait(seconds(5)).acquire();
    let mut queued = pin!(queued);
    assert!(poll_once(&mut queued).await.is_none());
    let released = now();
    first.release().await.unwrap();
    pass(seconds(1)).await;
    assert!(other.lock("a").is_locked().await.unwrap(), "granted to the queued caller");
    let got = other.lock("a").acquire().await.unwrap();
    assert!(now() - released <= seconds(30), "one ttl: {:?}", now() - released);
    assert_eq!(traffic.count(What::Renewal), 0);
    let seen = engine.snapshot();
    assert_eq!((seen.held, seen.lost, seen.renewals), (0, 0, 0));
    let (late, took) = timed(queued).await;
    assert!(late.is_err() && took < millis(10), "its wait is over: {took:?}");
    got.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_taken_late_is_renewed_at_once() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let acquire = engine.lock("a").acquire();
    let mut acquire = pin!(acquire);
    assert!(poll_once(&mut acquire).await.is_none());
    pass(seconds(25)).await; // granted at once; its renewal would have been due after 10 s
    assert_eq!(traffic.count(What::Renewal), 0);
    let lease = poll_once(&mut acquire).await.expect("granted").unwrap();
    breathe().await;
    assert_eq!(traffic.count(What::Renewal), 1);
    assert!(lease.remaining() > seconds(28));
    pass(seconds(100)).await;
    assert!(lease.is_held());
}
