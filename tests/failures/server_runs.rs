//! A server that dies and comes back, with and without its data, or stands still for a while.

use std::time::Duration;

use leasehold::{AcquireError, Engine, LossEvent, LossReason, Losses};
use leasehold_memory::{MemoryTransport, Restart};
use leasehold_tests::harness::redis_server::RedisServer;

use crate::fixture::{Fixture, SECOND, hold, until};

const LEASES: usize = 50;

/// The next losses, of different leases; each was told by its deadline, give or take what the gate allows.
async fn told_losses(losses: &mut Losses, ttl: Duration) -> Vec<LossReason> {
    let mut reasons = Vec::new();
    while reasons.len() < LEASES {
        let next = tokio::time::timeout(4 * ttl, losses.next()).await.expect("a loss");
        let Some(LossEvent::Lost(loss)) = next else { panic!("{next:?}") };
        assert!(loss.at <= loss.deadline + ttl / 3, "{loss:?}");
        reasons.push(loss.reason);
    }
    reasons
}

async fn engine(fixture: &Fixture, ttl: Duration) -> Engine {
    fixture.builder().ttl(ttl).build().await.expect("an engine")
}

#[tokio::test]
async fn s12_a_restart_without_data_is_a_new_epoch_whose_losses_are_told_at_once() {
    let fixture = Fixture::new();
    let engine = engine(&fixture, 9 * SECOND).await;
    let mut losses = engine.losses();
    let leases = hold(&engine, 0..LEASES).await;
    fixture.server.restart().expect("restarted");
    // All are due at once: the new run is asked about each long before its deadline.
    let reasons = told_losses(&mut losses, 9 * SECOND).await;
    assert!(reasons.iter().all(|reason| *reason == LossReason::NotOurs), "{reasons:?}");
    assert!(!leases.iter().any(|lease| lease.is_held()));
    let again = engine.lock("k0").acquire().await.expect("a lease of the new run");
    again.release().await.expect("released");
    assert_eq!(engine.snapshot().lost, LEASES as u64);
}

#[tokio::test]
async fn s12_a_restart_with_data_loses_no_lease() {
    let fixture = Fixture::on(RedisServer::builder().append_only());
    let engine = engine(&fixture, 9 * SECOND).await;
    let leases = hold(&engine, 0..LEASES).await;
    let before = engine.snapshot();
    fixture.server.restart().expect("restarted");
    until("each lease was in jeopardy and is renewed by the new run", || {
        let now = engine.snapshot();
        now.connected
            && now.jeopardies >= LEASES as u64
            && now.jeopardy == 0
            && now.renewals >= before.renewals + LEASES as u64
    })
    .await;
    assert!(leases.iter().all(|lease| lease.is_held()));
    for lease in leases {
        lease.release().await.expect("ours to the end");
    }
    assert!(fixture.is_empty() && engine.snapshot().lost == 0);
}

#[tokio::test]
async fn l5_a_server_that_stands_still_for_half_a_ttl_costs_no_lease() {
    let ttl = 6 * SECOND;
    let fixture = Fixture::new();
    let engine = engine(&fixture, ttl).await;
    let leases = hold(&engine, 0..LEASES).await;
    fixture.server.stop().expect("stopped");
    tokio::time::sleep(ttl / 2).await;
    fixture.server.cont().expect("continued");
    let healed = std::time::Instant::now();
    let renewals = engine.snapshot().renewals;
    until("each lease is renewed", || engine.snapshot().renewals >= renewals + LEASES as u64).await;
    println!("all renewed {:?} after healing", healed.elapsed());
    assert!(leases.iter().all(|lease| lease.is_held()));
    assert_eq!(engine.snapshot().lost, 0);
}

#[tokio::test]
async fn s5_a_server_that_stands_still_for_two_ttls_leaves_nothing_held_by_nobody() {
    let ttl = SECOND;
    let fixture = Fixture::new();
    let engine = fixture.builder().ttl(ttl).unavailable_after(2 * ttl).build().await.expect("an engine");
    let mut losses = engine.losses();
    let leases = hold(&engine, 0..LEASES).await;
    fixture.server.stop().expect("stopped");
    // What is asked of a stopped server lies in its socket until it goes on. A key that it then made would stay long.
    let asking: Vec<_> = (0..LEASES)
        .map(|n| tokio::spawn(engine.lock(format!("late{n}")).ttl(60 * SECOND).acquire()))
        .collect();
    let reasons = told_losses(&mut losses, ttl).await;
    assert!(reasons.iter().all(|reason| *reason == LossReason::Expired), "{reasons:?}");
    assert!(!leases.iter().any(|lease| lease.is_held()));
    for asked in asking {
        let answer = asked.await.expect("no panic");
        assert!(matches!(answer, Err(AcquireError::Unavailable { .. })), "{answer:?}");
    }
    fixture.server.cont().expect("continued");
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    until("no key is left", || fixture.is_empty()).await;
    let again = engine.lock("k0").acquire().await.expect("a lease");
    again.release().await.expect("released");
}

/// In paused time, where "just before" is exact: the grant is on its way to the renewal shard when the news comes.
#[tokio::test(start_paused = true)]
async fn s12_a_lease_granted_just_before_a_restart_is_asked_about_at_once() {
    let transport = MemoryTransport::new();
    let engine = Engine::builder(transport.clone()).on_current_runtime().build().await.expect("an engine");
    for restart in 1..=20 {
        let lease = engine.lock("k").acquire().await.expect("a lease");
        transport.restart(Restart::DataKept);
        tokio::time::sleep(SECOND / 2).await;
        let seen = engine.snapshot();
        assert_eq!((seen.jeopardies, seen.renewals, seen.jeopardy), (restart, restart, 0));
        lease.release().await.expect("ours to the end");
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}
