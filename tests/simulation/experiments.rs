//! The field's three experiments with Redisson's lock, on ours: no lease time and no unlock; a lease time shorter than
//! the work; the watchdog at a third.

use leasehold::{LossReason, ReleaseError};
use leasehold_memory::MemoryTransport;

use crate::fixture::{Traffic, What, engine, millis, now, pass, seconds};

#[tokio::test(start_paused = true)]
async fn without_lease_time_and_release_it_is_held_for_as_long_as_the_process_lives() {
    let memory = MemoryTransport::new();
    let (process, other) = (engine(&memory).await, engine(&memory).await);
    let forgotten = process.lock("a").acquire().await.unwrap();
    for _ in 0..10 {
        pass(seconds(60)).await;
        assert!(forgotten.is_held() && other.lock("a").try_acquire().await.unwrap().is_none());
    }
    // What ends with its process releases nothing: the runtime and with it the renewals stop.
    std::mem::forget(forgotten);
    process.shutdown(millis(0)).await;
    let freed = now();
    let _lease = other.lock("a").acquire().await.unwrap();
    assert!(now() - freed <= seconds(30));
}

#[tokio::test(start_paused = true)]
async fn a_lease_time_shorter_than_the_work_is_reported_by_the_release() {
    let memory = MemoryTransport::new();
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let lease = one.lock("a").ttl(seconds(10)).no_renewal().acquire().await.unwrap();
    let next = tokio::spawn(two.lock("a").acquire());
    pass(seconds(15)).await; // the work
    let next = next.await.unwrap().unwrap();
    let released = lease.release().await;
    assert!(matches!(released, Err(ReleaseError::AlreadyLost(LossReason::Expired))), "{released:?}");
    pass(seconds(60)).await;
    assert!(next.is_held(), "and the late release harms nobody");
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_renews_at_a_third() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let _lease = engine.lock("a").acquire().await.unwrap();
    let granted = now();
    pass(seconds(61)).await;
    let renewals: Vec<_> = traffic.of(What::Renewal).iter().map(|sent| sent.at - granted).collect();
    assert_eq!(renewals.len(), 6);
    for (number, at) in (1u64..).zip(renewals) {
        assert!(at >= seconds(10 * number) && at <= seconds(10 * number) + millis(52 * number), "{at:?}");
    }
}
