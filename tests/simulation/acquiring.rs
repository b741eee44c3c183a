//! Waiting for a lock: order, limits, cancellation, and grants that find nobody or come too late.

use std::{pin::pin, sync::Arc};

use leasehold::{AcquireError, transport::ErrorKind};
use leasehold_memory::{Cut, Fault, Operation};
use tokio::sync::Mutex;

use crate::fixture::{breathe, fixture, ground_with, millis, now, pass, poll_once, seconds, timed};

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_acquired_with_one_command_and_kept_until_released() {
    let fixture = fixture().await;
    let (lease, took) = timed(fixture.engine.lock("a").acquire()).await;
    let lease = lease.unwrap();
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(0), 1));
    pass(seconds(600)).await;
    assert!(lease.is_held() && fixture.engine.lock("a").is_locked().await.unwrap());
    lease.release().await.unwrap();
    assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
    fixture.settles_within(millis(0)).await;
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_for_a_held_lock_ends_when_it_is_over() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let (refused, took) = timed(fixture.engine.lock("a").wait(millis(2_300)).acquire()).await;
    let Err(AcquireError::TimedOut { waited }) = refused else { panic!("{refused:?}") };
    assert_eq!((took, waited), (millis(2_300), millis(2_300)));
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_behind_a_lease_of_the_same_engine_ends_when_it_is_over() {
    let fixture = fixture().await;
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    let (refused, took) = timed(fixture.engine.lock("a").wait(millis(700)).acquire()).await;
    assert!(matches!(refused, Err(AcquireError::TimedOut { .. })), "{refused:?}");
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(700), 1));
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_engine_are_served_in_the_order_in_which_they_came() {
    let fixture = fixture().await;
    let first = fixture.engine.lock("a").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (acquire, order) = (fixture.engine.lock("a").acquire(), order.clone());
        callers.spawn(async move {
            let lease = acquire.await.unwrap();
            order.lock().await.push(number);
            pass(millis(3)).await;
            lease.release().await.unwrap();
        });
        breathe().await;
    }
    drop(first);
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
    assert_eq!(*order.lock().await, (0..50).collect::<Vec<_>>());
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_caller_leaves_the_queue_and_nothing_else() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let next = tokio::spawn({
        let acquire = fixture.engine.lock("a").acquire();
        async move {
            breathe().await;
            acquire.await
        }
    });
    {
        let mut cancelled = pin!(fixture.engine.lock("a").acquire());
        assert!(poll_once(&mut cancelled.as_mut()).await.is_none());
        pass(millis(10)).await;
        assert_eq!(fixture.engine.snapshot().waiting, 2);
    }
    assert_eq!((fixture.engine.snapshot().waiting, fixture.heard.counts().cancelled), (1, 1));
    held.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_caller_has_gone_goes_to_the_next_with_the_same_ttl() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(500)));
    let mut gone = Box::pin(fixture.engine.lock("a").acquire());
    assert!(poll_once(&mut gone.as_mut()).await.is_none());
    pass(millis(100)).await;
    let next = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    drop(gone);
    let (lease, took) = timed(next).await;
    assert!(lease.unwrap().unwrap().is_held());
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(399), 1));
    assert_eq!(fixture.heard.counts().without_caller, 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_no_caller_of_its_ttl_waits_for_is_given_back_and_asked_for_anew() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(500)));
    let mut gone = Box::pin(fixture.engine.lock("a").ttl(seconds(30)).acquire());
    assert!(poll_once(&mut gone.as_mut()).await.is_none());
    pass(millis(100)).await;
    let next = tokio::spawn(fixture.engine.lock("a").ttl(seconds(20)).acquire());
    breathe().await;
    drop(gone);
    let lease = next.await.unwrap().unwrap();
    let holder = fixture.engine.lock("a").holder().await.unwrap().unwrap();
    assert!(lease.remaining() <= seconds(19) && holder.remaining.unwrap() <= seconds(20), "{holder:?}");
    assert_eq!((fixture.heard.counts().without_caller, holder.hold_count), (1, 1));
    drop(lease);
    fixture.settles_within(seconds(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_finds_nobody_is_given_back() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(500)));
    let mut gone = Box::pin(fixture.engine.lock("a").acquire());
    assert!(poll_once(&mut gone.as_mut()).await.is_none());
    pass(millis(100)).await;
    drop(gone);
    fixture.settles_within(seconds(1)).await;
    assert_eq!(fixture.heard.counts().without_caller, 1);
    assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn s7_a_grant_that_is_taken_too_late_is_given_back_and_its_caller_is_queued_at_the_head() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(2)).no_renewal();
    let mut late = pin!(lock.acquire());
    assert!(poll_once(&mut late.as_mut()).await.is_none());
    breathe().await;
    assert!(fixture.engine.lock("a").is_locked().await.unwrap(), "granted, and not taken");
    let lock = fixture.engine.lock("a").ttl(seconds(20));
    let (second, third) = (tokio::spawn(lock.acquire()), tokio::spawn(lock.acquire()));
    let second = second.await.unwrap().unwrap();
    assert!(poll_once(&mut late.as_mut()).await.is_none(), "what it was granted is over");
    assert_eq!(fixture.engine.snapshot().waiting, 2);
    second.release().await.unwrap();
    let late = late.await.unwrap();
    assert!(late.is_held() && !third.is_finished());
    late.release().await.unwrap();
    third.await.unwrap().unwrap().release().await.unwrap();
    fixture.settles_within(seconds(1)).await;
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.granted, seen.released, seen.lost), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn s7_a_grant_that_arrives_after_its_deadline_is_never_returned() {
    let fixture = ground_with(|builder| builder.unavailable_after(seconds(5))).await;
    // Every answer comes when the ttl of 1 s is long over; the request itself was in time.
    fixture.faults.on(Operation::Acquire).always().inject(Fault::DelayReply(millis(950)));
    let refused = fixture.engine.lock("a").ttl(seconds(1)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
    fixture.faults.clear();
    fixture.settles_within(seconds(3)).await;
    assert_eq!(fixture.engine.snapshot().granted, 0);
    assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn l3_without_any_definite_answer_a_caller_is_told_unavailable_and_not_held() {
    for (cut, slack) in
        [(Cut::BlackHole, seconds(1)), (Cut::RepliesLost, seconds(1)), (Cut::Refused, millis(210))]
    {
        let fixture = fixture().await;
        fixture.faults.cut(cut);
        let (refused, took) = timed(fixture.engine.lock("a").acquire()).await;
        let Err(AcquireError::Unavailable { after, last_error: Some(last_error) }) = refused else {
            panic!("{refused:?}")
        };
        assert!(matches!(last_error.kind, ErrorKind::TimedOut | ErrorKind::Unreachable), "{last_error:?}");
        assert_eq!(after, seconds(10));
        assert!(took >= seconds(10) && took <= seconds(10) + slack, "{cut:?}: {took:?}");
        fixture.faults.heal();
        fixture.settles_within(seconds(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_after_starts_anew_with_each_definite_answer() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(60)).await;
    assert!(!waiting.is_finished(), "held is not unavailable");
    let cut = now();
    fixture.faults.cut(Cut::BlackHole);
    let refused = waiting.await.unwrap();
    assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
    let took = now() - cut;
    assert!(took >= seconds(10) && took <= seconds(13), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn conservation_in_a_quiet_run() {
    let fixture = fixture().await;
    for round in 0..30 {
        let lease = fixture.engine.lock(format!("a{}", round % 3)).acquire().await.unwrap();
        if round % 5 == 0 {
            fixture.engine.lock(lease.name()).force_release().await.unwrap();
            lease.lost().await;
        }
        if round % 2 == 0 { drop(lease) } else { drop(lease.release().await) }
    }
    fixture.settles_within(seconds(1)).await;
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.granted, seen.released, seen.lost, seen.held), (30, 24, 6, 0));
}
