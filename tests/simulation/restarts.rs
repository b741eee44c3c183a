//! The server is restarted, with and without its data.

use leasehold::{AcquireError, LeaseState, LossReason};
use leasehold_memory::{Fault, Operation, Restart};

use crate::fixture::{fixture, ground_with, millis, now, pass, seconds, timed};

#[tokio::test(start_paused = true)]
async fn with_its_data_kept_every_lease_is_asked_at_once_and_stays() {
    let fixture = fixture().await;
    let mut leases = vec![];
    for number in 0..200 {
        leases.push(fixture.engine.lock(format!("{number}")).acquire().await.unwrap());
    }
    for restarts in 1..=5 {
        fixture.transport.inner().restart(Restart::DataKept);
        pass(millis(101)).await;
        let seen = fixture.engine.snapshot();
        assert_eq!((seen.renewals, seen.lost, seen.jeopardy), (200 * restarts, 0, 0));
        assert_eq!(seen.jeopardies, 200 * restarts, "of another run nothing is known until it has answered");
    }
    assert!(leases.iter().all(|lease| lease.state() == LeaseState::Held));
}

#[tokio::test(start_paused = true)]
async fn with_its_data_lost_every_lease_is_reported_lost_within_two_ticks() {
    let fixture = fixture().await;
    let mut leases = vec![];
    for number in 0..200 {
        leases.push(fixture.engine.lock(format!("{number}")).acquire().await.unwrap());
    }
    let before = now();
    fixture.transport.inner().restart(Restart::DataLost);
    for lease in &leases {
        assert_eq!(lease.lost().await, LossReason::NotOurs);
    }
    assert!(now() - before <= millis(100), "{:?}", now() - before);
    drop(leases);
    fixture.settles_within(seconds(2)).await;
}

#[tokio::test(start_paused = true)]
async fn s12_a_grant_of_the_former_run_proves_nothing() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(500)));
    let granted_before = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(200)).await;
    fixture.transport.inner().restart(Restart::DataLost);
    let holder = fixture.other().await.lock("a").acquire().await.unwrap();
    pass(millis(400)).await;
    assert!(!granted_before.is_finished() && holder.is_held());
    let token = holder.fencing_token();
    holder.release().await.unwrap();
    let lease = granted_before.await.unwrap().unwrap();
    assert!(lease.fencing_token() > token);
    drop(lease);
    fixture.settles_within(seconds(40)).await;
}

#[tokio::test(start_paused = true)]
async fn s12_a_renewal_of_the_former_run_proves_nothing() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").ttl(seconds(9)).acquire().await.unwrap();
    fixture.faults.on(Operation::Renew).inject(Fault::DelayReply(millis(700)));
    pass(millis(3_300)).await;
    fixture.transport.inner().restart(Restart::DataLost);
    let before = lease.remaining();
    let reason = lease.lost().await;
    assert_eq!(reason, LossReason::NotOurs);
    assert!(before < seconds(6), "the late answer moved no deadline: {before:?}");
    assert!(fixture.other().await.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn who_waited_gets_the_lock_of_a_server_that_lost_it() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(3)).await;
    fixture.transport.inner().restart(Restart::DataLost);
    let (lease, took) = timed(waiting).await;
    let lease = lease.unwrap().unwrap();
    assert!(took <= millis(10), "{took:?}");
    assert!(lease.fencing_token() > held.fencing_token());
    assert_eq!(held.lost().await, LossReason::NotOurs);
}

#[tokio::test(start_paused = true)]
async fn under_restart_grace_nothing_is_granted_before_every_former_lease_has_run_out() {
    let fixture = ground_with(|builder| builder.restart_grace(seconds(30))).await;
    let lock = fixture.engine.lock("a");
    let (refused, took) = timed(lock.acquire()).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable { last_error: Some(_), .. })), "{refused:?}");
    assert!(took >= seconds(10) && took <= millis(10_300), "a server that has just come up: {took:?}");
    pass(seconds(20)).await;
    let _lease = lock.acquire().await.unwrap();
    fixture.transport.inner().restart(Restart::DataLost);
    let restarted = now();
    let lease = loop {
        match lock.acquire().await {
            Ok(lease) => break lease,
            Err(AcquireError::Unavailable { last_error: Some(last_error), .. }) => {
                assert!(last_error.detail.contains("restart_grace = 30s"), "{last_error}");
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    let after = now() - restarted;
    assert!(after >= seconds(30) && after <= millis(30_250), "{after:?}");
    assert!(lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_open_when_its_server_was_restarted_is_closed() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").ttl(seconds(5)).acquire().await.unwrap();
    fixture.faults.on(Operation::Release).inject(Fault::LoseRequest);
    fixture.faults.on(Operation::Renew).inject(Fault::LoseReply);
    pass(seconds(3)).await;
    lease.release().await.unwrap_err();
    fixture.transport.inner().restart(Restart::DataKept);
    fixture.settles_within(seconds(15)).await;
    assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
}
