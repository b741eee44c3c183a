//! Values that cannot be used: the call says which, what it was and what to do; nothing is sent.

use std::time::Duration;

use leasehold::{AcquireError, EngineConfig, InspectError, Invalid, RenewError};
use leasehold_tests::changed;

use crate::fixture::{Fixture, fixture, ground_with, millis, seconds};

async fn refused(fixture: &Fixture, lock: leasehold::Lock) -> Invalid {
    let Err(AcquireError::Invalid(acquire)) = lock.acquire().await else { panic!("accepted: {lock:?}") };
    let Err(AcquireError::Invalid(tried)) = lock.try_acquire().await else {
        assert_eq!(acquire.field, "wait", "a try has no wait");
        return acquire;
    };
    assert_eq!(acquire, tried);
    assert_eq!(fixture.engine.snapshot().asks, 0);
    acquire
}

fn says(invalid: &Invalid, field: &str, value: &str, remedy: &str) {
    assert_eq!(invalid.field, field);
    assert!(invalid.value.contains(value) && invalid.remedy.contains(remedy), "{invalid}");
    let shown = invalid.to_string();
    assert!(shown.contains(field) && shown.contains(remedy) && shown.len() < 400, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_none() {
    let fixture = fixture().await;
    says(&refused(&fixture, fixture.engine.lock("")).await, "name", "\"\"", "empty");
    let long = "x".repeat(9 * 1024);
    says(&refused(&fixture, fixture.engine.lock(&long)).await, "name", "xxx", "8192");
    let Err(InspectError::Invalid(invalid)) = fixture.engine.lock(&long).holder().await else { panic!() };
    says(&invalid, "name", "xxx", "9216");
    assert!(fixture.engine.lock("x".repeat(8 * 1024)).acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_prefix_counts_for_the_length_of_a_name() {
    let fixture = ground_with(|builder| builder.name_prefix("p:")).await;
    says(&refused(&fixture, fixture.engine.lock("x".repeat(8 * 1024 - 1))).await, "name", "xxx", "8193");
}

#[tokio::test(start_paused = true)]
async fn ttls_below_the_least_and_above_the_most() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    says(&refused(&fixture, lock.clone().ttl(Duration::ZERO)).await, "ttl", "0ns", "1s");
    says(&refused(&fixture, lock.clone().ttl(millis(999))).await, "ttl", "999ms", "1s");
    says(&refused(&fixture, lock.clone().ttl(Duration::MAX)).await, "ttl", "18446744073709551615", "at most");
    says(&refused(&fixture, lock.max_hold(Duration::ZERO)).await, "max_hold", "0s", "leave it out");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_overflows() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").wait(Duration::MAX);
    says(&refused(&fixture, lock).await, "wait", "18446744073709551615", "ten years; shorten it");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_with_a_bad_ttl() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    for ttl in [Duration::ZERO, Duration::MAX] {
        let Err(RenewError::Invalid(invalid)) = lease.renew(ttl).await else { panic!("accepted") };
        assert_eq!(invalid.field, "ttl");
    }
}

#[tokio::test(start_paused = true)]
async fn a_ttl_beyond_the_restart_grace_names_both() {
    let fixture = ground_with(|builder| builder.restart_grace(seconds(40))).await;
    let lock = fixture.engine.lock("a").ttl(seconds(50));
    says(&refused(&fixture, lock).await, "ttl", "50s", "40s");
}

#[tokio::test(start_paused = true)]
async fn limits_are_typed_and_name_the_setting() {
    let config = changed(EngineConfig::default(), |new| {
        new.leases_max = 2;
        new.waiters_max = 3;
    });
    let fixture = ground_with(|builder| builder.config(config)).await;
    let held = [
        fixture.engine.lock("a").acquire().await.unwrap(),
        fixture.engine.lock("b").acquire().await.unwrap(),
    ];
    let refused = fixture.engine.lock("c").acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::LimitReached { limit: "leases_max", value: 2 })),
        "{refused:?}"
    );
    drop(held);
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    let _callers: Vec<_> = (0..3).map(|_| tokio::spawn(fixture.engine.lock("a").acquire())).collect();
    crate::fixture::breathe().await;
    let refused = fixture.engine.lock("a").acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::LimitReached { limit: "waiters_max", value: 3 })),
        "{refused:?}"
    );
}
