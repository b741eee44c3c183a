//! A first send that arrives late: after a second one was granted, handed out and released.

use leasehold::{LeaseState, transport::Outcome};
use leasehold_memory::MemoryTransport;

use crate::fixture::{Detour, breathe, engine, millis, now, pass, seconds, settles_within, until};

#[tokio::test(start_paused = true)]
async fn s5_before_its_latest_execution_time_the_key_is_gone_again_within_a_second_of_it() {
    for arrives in [20, 100, 500, 900, 999] {
        let transport = Detour::new(MemoryTransport::new());
        let engine = engine(&transport).await;
        let lock = engine.lock("a");
        transport.take_acquires(1);
        let first_sent = now();
        let lease = lock.acquire().await.unwrap();
        assert!(now() - first_sent <= millis(12), "the second send is granted");
        lease.release().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
        until(first_sent + millis(arrives)).await;
        let late = transport.deliver_acquire().await;
        assert!(matches!(late, Outcome::Granted { .. }), "{late:?}");
        assert_eq!(lock.holder().await.unwrap().unwrap().hold_count, 1);
        until(first_sent + seconds(2)).await;
        assert!(!lock.is_locked().await.unwrap(), "held by nobody: arrived after {arrives} ms");
        settles_within(&engine, millis(0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s5_after_its_latest_execution_time_it_never_appears() {
    for arrives in [1_001, 1_500, 5_000, 60_000] {
        let transport = Detour::new(MemoryTransport::new());
        let engine = engine(&transport).await;
        let lock = engine.lock("a");
        transport.take_acquires(1);
        let first_sent = now();
        lock.acquire().await.unwrap().release().await.unwrap();
        until(first_sent + millis(arrives)).await;
        let late = transport.deliver_acquire().await;
        assert!(matches!(late, Outcome::TooLate { .. }), "{late:?}");
        assert!(!lock.is_locked().await.unwrap());
        settles_within(&engine, seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s5_while_the_lease_is_held_it_counts_once() {
    let transport = Detour::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let lock = engine.lock("a");
    transport.take_acquires(3);
    let lease = lock.acquire().await.unwrap();
    for _ in 0..3 {
        let late = transport.deliver_acquire().await;
        assert!(matches!(late, Outcome::Granted { .. }), "{late:?}");
        assert_eq!(lock.holder().await.unwrap().unwrap().hold_count, 1);
    }
    lease.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    settles_within(&engine, seconds(2)).await;
}

#[tokio::test(start_paused = true)]
async fn s5_another_holder_is_not_disturbed_by_it() {
    let transport = Detour::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    transport.take_acquires(1);
    engine.lock("a").acquire().await.unwrap().release().await.unwrap();
    let next = engine.lock("a").acquire().await.unwrap();
    let late = transport.deliver_acquire().await;
    assert!(matches!(late, Outcome::Busy { .. }), "{late:?}");
    pass(seconds(100)).await;
    assert_eq!(next.state(), LeaseState::Held);
    next.release().await.unwrap();
    settles_within(&engine, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_shorter_renewal_does_not_shorten() {
    let transport = Detour::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let lock = engine.lock("a").ttl(seconds(10));
    let lease = lock.acquire().await.unwrap();
    transport.take_renewals(1);
    pass(millis(3_450)).await; // the renewal at a third is under way
    assert_eq!(lease.state(), LeaseState::Jeopardy);
    lease.renew(seconds(60)).await.unwrap();
    let deadline = now() + lease.remaining();
    let late = transport.deliver_renewals().await;
    assert!(matches!(late[0].outcome, Outcome::Renewed { .. }), "{late:?}");
    let left = lock.holder().await.unwrap().unwrap().remaining.unwrap();
    assert!(left > seconds(59), "{left:?}");
    assert_eq!(now() + lease.remaining(), deadline);
}

#[tokio::test(start_paused = true)]
async fn s8_a_renewal_that_arrives_after_the_release_revives_nothing() {
    let transport = Detour::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let lock = engine.lock("a").ttl(seconds(10));
    let lease = lock.acquire().await.unwrap();
    transport.take_renewals(1);
    pass(millis(3_450)).await;
    lease.release().await.unwrap();
    let late = transport.deliver_renewals().await;
    assert!(matches!(late[0].outcome, Outcome::NotYours { .. }), "{late:?}");
    breathe().await;
    assert!(!lock.is_locked().await.unwrap());
    settles_within(&engine, seconds(2)).await;
}
