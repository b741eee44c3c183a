//! As many callers of one name as an engine takes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::fixture::{breathe, fixture, millis, pass, seconds};

#[tokio::test(start_paused = true)]
async fn l2_100_000_callers_with_a_wait_are_served_in_order() {
    const CALLERS: u64 = 100_000;
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let next = Arc::new(AtomicU64::new(0));
    for number in 0..CALLERS {
        let (next, acquire) = (next.clone(), fixture.engine.lock("a").wait(seconds(600)).acquire());
        tokio::spawn(async move {
            let lease = acquire.await.expect("in time");
            assert_eq!(next.fetch_add(1, Ordering::Relaxed), number, "out of turn");
            lease.release().await.expect("held to the end");
        });
    }
    pass(millis(500)).await;
    assert_eq!(fixture.engine.snapshot().waiting, CALLERS);
    let asks = fixture.engine.snapshot().asks;
    held.release().await.unwrap();
    while fixture.engine.snapshot().waiting > 0 {
        breathe().await;
    }
    breathe().await;
    let seen = fixture.engine.snapshot();
    assert_eq!((next.load(Ordering::Relaxed), seen.released), (CALLERS, CALLERS));
    assert!(seen.asks - asks <= 2 * CALLERS, "{} asks", seen.asks - asks);
}

#[tokio::test(start_paused = true)]
async fn l3_100_000_waits_that_end_one_by_one_end_in_time() {
    const CALLERS: u64 = 100_000;
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    for number in 0..CALLERS {
        let wait = millis(1_000 + number % 10_000);
        tokio::spawn(fixture.engine.lock("a").wait(wait).acquire());
    }
    pass(millis(999)).await;
    for left in (0..10_000).rev() {
        pass(millis(1)).await;
        let waiting = fixture.engine.snapshot().waiting;
        assert!(waiting <= 10 * (left + 2), "{waiting} of {}", 10 * left);
    }
}
