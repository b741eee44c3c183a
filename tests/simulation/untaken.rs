//! A grant that its caller does not take: the future of the call is alive and is not polled.

use std::{pin::pin, time::Duration};

use leasehold::{AcquireError, Engine, EngineConfig, Lock};
use leasehold_memory::MemoryTransport;
use leasehold_tests::changed;

use crate::fixture::{
    Fixture, Traffic, What, breathe, engine, fixture, ground_with, millis, now, pass, poll_once, seconds,
    settles_within, timed,
};

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

/// How long a caller may leave its grant while others of its engine wait.
const UNTAKEN_MAX: Duration = millis(200);

/// Locks of each kind that one caller holds at a time.
fn locks(engine: &Engine) -> [Lock; 5] {
    [
        engine.lock("plain"),
        engine.fenced_lock("fenced"),
        engine.spin_lock("spin"),
        engine.fair_lock("fair"),
        engine.rw_lock("write").write(),
    ]
}

#[tokio::test(start_paused = true)]
async fn l9_a_task_that_waits_for_a_lock_twice_gets_it_whichever_future_it_polls() {
    let fixture = fixture().await;
    for lock in locks(&fixture.engine) {
        let held = lock.acquire().await.unwrap();
        let mut first = pin!(lock.acquire());
        assert!(poll_once(&mut first.as_mut()).await.is_none());
        held.release().await.unwrap();
        // As a `select!` whose other branch wants the same lock: `first` is alive, and not polled.
        let (second, took) = timed(lock.acquire()).await;
        // A spin lock's release does not say whether others listen, so the engine stands back for them.
        assert!(took >= UNTAKEN_MAX && took <= UNTAKEN_MAX + millis(3), "{took:?}");
        second.unwrap().release().await.unwrap();
        first.await.unwrap().release().await.unwrap();
    }
    let counts = fixture.heard.counts();
    assert_eq!((counts.without_caller, fixture.engine.snapshot().lost), (5, 0));
    fixture.settles_within(seconds(1)).await;
}

/// A caller whose future is polled only once, and one behind it. Returns when the second one got the lock, counted from
/// the release before.
async fn behind_who_does_not_take(fixture: &Fixture) -> Duration {
    let lock = fixture.engine.lock("a");
    let held = lock.acquire().await.unwrap();
    let mut first = pin!(lock.acquire());
    assert!(poll_once(&mut first.as_mut()).await.is_none());
    let second = tokio::spawn(lock.acquire());
    breathe().await;
    held.release().await.unwrap();
    let (second, took) = timed(second).await;
    let second = second.unwrap().unwrap();
    assert!(poll_once(&mut first.as_mut()).await.is_none(), "queued again");
    second.release().await.unwrap();
    assert!(first.await.unwrap().is_held());
    took
}

#[tokio::test(start_paused = true)]
async fn l9_a_grant_that_is_not_taken_is_with_the_next_caller_after_200_ms_handed_off_or_not() {
    let handed = fixture().await;
    assert_eq!(behind_who_does_not_take(&handed).await, UNTAKEN_MAX);
    handed.settles_within(seconds(1)).await;
    let config = changed(EngineConfig::default(), |new| new.hand_offs_max = 0);
    let granted = ground_with(|builder| builder.config(config)).await;
    assert_eq!(behind_who_does_not_take(&granted).await, UNTAKEN_MAX);
}

#[tokio::test(start_paused = true)]
async fn l9_who_comes_later_waits_for_200_ms() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let mut first = pin!(lock.acquire());
    assert!(poll_once(&mut first.as_mut()).await.is_none());
    pass(seconds(5)).await;
    let (second, took) = timed(lock.acquire()).await;
    assert_eq!(took, UNTAKEN_MAX);
    drop(second.unwrap());
    assert!(first.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_taken_in_time_stays_with_its_holder() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let mut first = pin!(lock.acquire());
    assert!(poll_once(&mut first.as_mut()).await.is_none());
    let second = tokio::spawn(lock.acquire());
    pass(UNTAKEN_MAX - millis(1)).await;
    let lease = first.await.unwrap();
    pass(seconds(60)).await;
    assert!(lease.is_held() && !second.is_finished());
    assert_eq!(fixture.heard.counts().without_caller, 0);
}

/// A call that polls its future this long after it is woken, as that of a runtime with too much work.
fn slow_caller(lock: &Lock, delay: Duration) -> tokio::task::JoinHandle<()> {
    let acquire = lock.acquire();
    tokio::spawn(async move {
        let mut acquire = pin!(acquire);
        let lease = loop {
            match poll_once(&mut acquire).await {
                Some(lease) => break lease.unwrap(),
                None => pass(delay).await,
            }
        };
        lease.release().await.unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn callers_that_are_polled_late_all_get_the_lock_in_the_end() {
    for delay in [millis(150), millis(450), millis(1_700)] {
        let fixture = fixture().await;
        let began = now();
        let callers: Vec<_> = (0..20).map(|_| slow_caller(&fixture.engine.lock("a"), delay)).collect();
        for caller in callers {
            caller.await.unwrap();
        }
        assert!(now() - began <= seconds(120), "{delay:?}: {:?}", now() - began);
        settles_within(&fixture.engine, seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_polled_late_gets_the_lock_among_callers_that_are_not() {
    let fixture = fixture().await;
    for lock in [fixture.engine.lock("a"), fixture.engine.fair_lock("b")] {
        for _ in 0..2 {
            let lock = lock.clone();
            tokio::spawn(async move {
                while let Ok(lease) = lock.acquire().await {
                    pass(millis(1)).await;
                    lease.release().await.unwrap();
                }
            });
        }
        tokio::select! {
            slow = slow_caller(&lock, millis(500)) => slow.unwrap(),
            () = pass(seconds(3)) => panic!("{lock:?}: it waits behind callers that came later"),
        }
    }
    fixture.engine.shutdown(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn l9_a_grant_from_a_caller_that_was_late_is_looked_at_in_time_by_the_next() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let held = lock.acquire().await.unwrap();
    let mut late = pin!(lock.acquire());
    assert!(poll_once(&mut late.as_mut()).await.is_none());
    let other = tokio::spawn(lock.acquire());
    held.release().await.unwrap();
    let other = other.await.unwrap().unwrap(); // after 200 ms
    assert!(
        poll_once(&mut late.as_mut()).await.is_none(),
        "queued again; its next grant may be left for 400 ms"
    );
    let mut sleeper = pin!(lock.acquire());
    assert!(poll_once(&mut sleeper.as_mut()).await.is_none());
    let last = tokio::spawn(lock.acquire());
    pass(millis(150)).await; // too long for a hand-off: the server grants the next lease
    other.release().await.unwrap();
    let late = late.await.unwrap();
    late.release().await.unwrap(); // handed off to the sleeper
    let (last, took) = timed(last).await;
    assert_eq!(took, UNTAKEN_MAX);
    drop(last.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn l3_a_name_of_a_list_that_is_queued_again_waits_no_longer_than_its_wait() {
    let fixture = fixture().await;
    let mut list = fixture.engine.acquire_all(["a"]).wait(seconds(1)).start();
    breathe().await; // granted, and not read
    let other = fixture.engine.lock("a").acquire().await.unwrap();
    pass(millis(700)).await;
    let (outcome, took) = timed(list.next()).await;
    let outcome = outcome.expect("one name").1;
    assert!(matches!(outcome, Err(AcquireError::TimedOut { waited }) if waited >= seconds(1)), "{outcome:?}");
    assert!(took <= millis(101), "{took:?}");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_a_fair_lock_that_is_too_slow_goes_to_the_end_of_the_line() {
    let fixture = fixture().await;
    let lock = fixture.engine.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut slow = pin!(lock.acquire());
    assert!(poll_once(&mut slow.as_mut()).await.is_none());
    pass(millis(1)).await;
    let second = tokio::spawn(lock.acquire());
    pass(millis(1)).await;
    let third = tokio::spawn(lock.acquire());
    pass(millis(1)).await;
    held.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(poll_once(&mut slow.as_mut()).await.is_none());
    pass(millis(1)).await;
    second.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    assert!(poll_once(&mut slow.as_mut()).await.is_none(), "behind the third");
    third.release().await.unwrap();
    assert!(slow.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_was_admitted_is_not_refused_when_it_is_queued_again() {
    let config = changed(EngineConfig::default(), |new| new.waiters_max = 2);
    let fixture = ground_with(|builder| builder.config(config)).await;
    let lock = fixture.engine.lock("a");
    let mut slow = pin!(lock.acquire());
    assert!(poll_once(&mut slow.as_mut()).await.is_none());
    breathe().await; // granted
    let first = lock.acquire().await.unwrap();
    let others = [tokio::spawn(lock.acquire()), tokio::spawn(lock.acquire())];
    breathe().await;
    assert!(matches!(lock.acquire().await, Err(AcquireError::LimitReached { .. })));
    assert!(poll_once(&mut slow.as_mut()).await.is_none(), "queued again");
    first.release().await.unwrap();
    slow.await.unwrap().release().await.unwrap();
    for other in others {
        other.await.unwrap().unwrap().release().await.unwrap();
    }
}
