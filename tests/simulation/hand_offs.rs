//! A lock goes from one caller of an engine to the next without a command, and no promise changes by it.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    AcquireError, Engine, EngineConfig, FencingMode, FencingToken, Lease, Lock, LossReason, ReleaseError,
    ReleaseOutcome,
};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation, Restart, faults::Rule};
use leasehold_tests::changed;

use crate::fixture::{
    Fixture, Traffic, What, breathe, builder, engine, fixture, ground_with, millis, now, pass, poll_once,
    seconds, settles_within, timed,
};

const ROUND_TRIP: Duration = millis(1);

/// Counts the acquires and the releases that are sent, and delays each by a round trip.
fn sent(fixture: &Fixture) -> [Rule; 2] {
    [Operation::Acquire, Operation::Release]
        .map(|operation| fixture.faults.on(operation).always().inject(Fault::DelayReply(ROUND_TRIP)))
}

/// Callers that wait for the lock in this order. Each holds it for `hold`, and notes its number and its token.
async fn line(lock: &Lock, callers: usize, hold: Duration) -> Vec<(usize, FencingToken)> {
    let served = Arc::new(Mutex::new(Vec::new()));
    let call = |number: usize| {
        let (asked, served) = (lock.clone().wait(seconds(60)).acquire(), served.clone());
        tokio::spawn(async move {
            let lease = asked.await.expect("granted");
            served.lock().unwrap().push((number, lease.fencing_token()));
            pass(hold).await;
            assert!(lease.is_held());
            lease.release().await.expect("ours to the end");
        })
    };
    let calls: Vec<_> = (0..callers).map(call).collect();
    for call in calls {
        call.await.unwrap();
    }
    Arc::try_unwrap(served).unwrap().into_inner().unwrap()
}

fn handed_off(fixture: &Fixture) -> u64 {
    fixture.heard.counts().releases.get(&ReleaseOutcome::HandedOff).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn s6_callers_of_an_engine_get_the_lock_in_turn_with_rising_tokens_and_few_commands() {
    let fixture = fixture().await;
    let sent = sent(&fixture);
    let served = line(&fixture.engine.lock("a"), 1_000, Duration::ZERO).await;
    assert!(
        served.iter().enumerate().all(|(place, (number, _))| place == *number),
        "in the order of their coming"
    );
    assert!(served.windows(2).all(|pair| pair[0].1 < pair[1].1), "each token is higher");
    let sent = sent.map(|rule| rule.fired());
    assert!(sent.iter().all(|count| *count <= 4), "{sent:?} acquires and releases for 1,000 holds");
    assert!(handed_off(&fixture) >= 996, "{}", handed_off(&fixture));
    fixture.settles_within(seconds(1)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_hand_offs_each_hold_is_asked_for_and_released() {
    let config = changed(EngineConfig::default(), |new| new.hand_offs_max = 0);
    let fixture = ground_with(|builder| builder.config(config)).await;
    let sent = sent(&fixture);
    line(&fixture.engine.lock("a"), 20, Duration::ZERO).await;
    let sent = sent.map(|rule| rule.fired());
    assert!(sent[0] >= 20 && sent[1] == 20, "{sent:?}");
    assert_eq!(handed_off(&fixture), 0);
}

#[tokio::test(start_paused = true)]
async fn s6_callers_of_a_fenced_lock_get_it_in_turn_with_rising_tokens_and_few_commands() {
    let fixture = fixture().await;
    let (sent, other) = (sent(&fixture), fixture.other().await);
    let mut last = None;
    for _ in 0..3 {
        let served = line(&fixture.engine.fenced_lock("a"), 1_000, Duration::ZERO).await;
        assert!(served.iter().enumerate().all(|(place, (number, _))| place == *number), "in their order");
        let tokens: Vec<_> = last.into_iter().chain(served.into_iter().map(|(_, token)| token)).collect();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "each token is higher");
        let theirs = other.fenced_lock("a").wait(seconds(10)).acquire().await.expect("granted");
        assert!(Some(&theirs.fencing_token()) > tokens.last(), "another engine's, too");
        last = Some(theirs.fencing_token());
        theirs.release().await.expect("ours");
    }
    let sent = sent.map(|rule| rule.fired());
    assert!(sent.iter().all(|count| *count <= 40), "{sent:?} acquires and releases for 3,000 holds");
    assert!(handed_off(&fixture) > 2_900, "{}", handed_off(&fixture));
    fixture.settles_within(seconds(1)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

/// Each number of such a lock follows the one before, so none may be left out.
#[tokio::test(start_paused = true)]
async fn a_fenced_lock_that_counts_one_by_one_is_not_handed_off() {
    let config = changed(EngineConfig::default(), |new| new.fencing = FencingMode::Counter);
    let fixture = ground_with(|builder| builder.config(config)).await;
    let _delayed = sent(&fixture);
    let served = line(&fixture.engine.fenced_lock("a"), 20, Duration::ZERO).await;
    assert!(served.iter().map(|(_, token)| token.as_i64()).eq(1..=20), "{served:?}");
    assert_eq!(handed_off(&fixture), 0);
}

/// Callers of one engine that want the lock all the time.
fn crowd(engine: &Engine, callers: usize, hold: Duration) {
    for _ in 0..callers {
        let engine = engine.clone();
        tokio::spawn(async move {
            loop {
                let Ok(lease) = engine.lock("a").wait(seconds(60)).acquire().await else { return };
                pass(hold).await;
                let _ = lease.release().await;
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn l5_another_process_waits_for_100_ms_and_a_few_holds() {
    for hold in [millis(1), millis(5), millis(40)] {
        let fixture = fixture().await;
        sent(&fixture);
        let other = fixture.other().await;
        crowd(&fixture.engine, 64, hold);
        pass(millis(700)).await;
        for _ in 0..20 {
            let (lease, waited) = timed(other.lock("a").wait(seconds(10)).acquire()).await;
            assert!(waited <= millis(100) + 3 * hold + 6 * ROUND_TRIP, "{waited:?} with holds of {hold:?}");
            lease.expect("granted").release().await.expect("ours");
            pass(millis(30)).await;
        }
        assert!(handed_off(&fixture) > 0, "nothing was handed off with holds of {hold:?}");
    }
}

/// A lease, and a caller that waits for it.
async fn wanted(engine: &Engine) -> (Lease, tokio::task::JoinHandle<Result<Lease, AcquireError>>) {
    let lease = engine.lock("a").acquire().await.expect("free");
    let next = tokio::spawn(engine.lock("a").wait(seconds(60)).acquire());
    breathe().await;
    (lease, next)
}

#[tokio::test(start_paused = true)]
async fn s2_a_lease_that_was_handed_off_is_renewed_and_keeps_others_out() {
    let traffic = Traffic::new(MemoryTransport::new());
    let (engine, other) = (engine(&traffic).await, engine(&traffic).await);
    let (first, next) = wanted(&engine).await;
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    assert_eq!((traffic.count(What::Acquire), traffic.count(What::Release)), (1, 0));
    for _ in 0..30 {
        pass(seconds(10)).await;
        assert!(second.is_held() && other.lock("a").try_acquire().await.unwrap().is_none());
    }
    assert!((29..=31).contains(&traffic.count(What::Renewal)), "one each ten seconds");
    second.release().await.unwrap();
    assert!(other.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_renewed_is_released_to_the_server() {
    let fixture = fixture().await;
    let sent = sent(&fixture);
    let (first, next) = wanted(&fixture.engine).await;
    first.renew(seconds(60)).await.unwrap();
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    assert_eq!((sent.map(|rule| rule.fired()), handed_off(&fixture)), ([2, 1], 0));
    assert!(
        second.remaining() <= seconds(30),
        "a ttl of 60 s was the first holder's: {:?}",
        second.remaining()
    );
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_that_of_the_present_holder_alone() {
    let fixture = fixture().await;
    let (first, next) = wanted(&fixture.engine).await;
    let mut lost = pin!(first.lost());
    assert!(poll_once(&mut lost).await.is_none());
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    assert!(fixture.other().await.lock("a").force_release().await.unwrap());
    assert_eq!(second.lost().await, LossReason::NotOurs);
    assert!(poll_once(&mut lost).await.is_none(), "the first holder released in time");
    assert_eq!(fixture.heard.counts().losses, [(LossReason::NotOurs, 1)].into());
    let mut losses = fixture.engine.losses();
    drop(second);
    fixture.settles_within(seconds(40)).await;
    assert!(poll_once(&mut pin!(losses.next())).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_this_engine_releases_by_force_is_not_handed_off() {
    let fixture = fixture().await;
    let (first, next) = wanted(&fixture.engine).await;
    assert!(fixture.engine.lock("a").force_release().await.unwrap());
    let told = first.release().await;
    assert!(matches!(told, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{told:?}");
    let second = next.await.unwrap().unwrap();
    assert_eq!((handed_off(&fixture), fixture.transport.inner().stored_holds()), (0, 1));
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn nor_is_a_grant_whose_answer_is_on_its_way_when_its_lock_is_released_by_force() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(50)));
    let first = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    let next = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    assert!(fixture.engine.lock("a").force_release().await.unwrap());
    let told = first.await.unwrap().expect("granted before").release().await;
    assert!(matches!(told, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{told:?}");
    let second = next.await.unwrap().unwrap();
    assert_eq!((handed_off(&fixture), fixture.transport.inner().stored_holds()), (0, 1));
    assert!(second.is_held());
}

/// The lock is acquired after the call that releases it by force, and before the server executes that release.
#[tokio::test(start_paused = true)]
async fn nor_is_a_grant_that_a_release_by_force_in_progress_deletes() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::ForceRelease).inject(Fault::DelayRequest(millis(20)));
    let forced = fixture.engine.lock("a").force_release();
    let (first, next) = wanted(&fixture.engine).await;
    assert!(forced.await.unwrap(), "the hold of the first caller is deleted");
    let told = first.release().await;
    assert!(matches!(told, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{told:?}");
    let second = next.await.unwrap().unwrap();
    assert_eq!((handed_off(&fixture), fixture.transport.inner().stored_holds()), (0, 1));
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn while_a_release_by_force_is_in_progress_nothing_is_handed_off() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::ForceRelease).inject(Fault::DelayRequest(millis(20)));
    let forced = fixture.engine.lock("a").force_release();
    let (first, next) = wanted(&fixture.engine).await;
    first.release().await.expect("held until now");
    drop(next.await.unwrap().expect("granted by the server"));
    forced.await.unwrap();
    assert_eq!(handed_off(&fixture), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_release_by_force_grants_are_handed_off_again() {
    let fixture = fixture().await;
    assert!(!fixture.engine.lock("a").force_release().await.unwrap());
    drop(fixture.engine.lock("a").force_release());
    breathe().await;
    let (first, next) = wanted(&fixture.engine).await;
    first.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(handed_off(&fixture), 1);
}

#[tokio::test(start_paused = true)]
async fn s12_a_grant_of_a_server_that_was_restarted_is_not_handed_off() {
    let fixture = fixture().await;
    let (first, next) = wanted(&fixture.engine).await;
    fixture.transport.inner().restart(Restart::DataLost);
    breathe().await;
    let told = first.release().await;
    assert!(matches!(told, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{told:?}");
    next.await.unwrap().expect("of the new run").release().await.expect("ours");
    assert_eq!(handed_off(&fixture), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_is_handed_off() {
    let fixture = fixture().await;
    let sent = sent(&fixture);
    let (first, next) = wanted(&fixture.engine).await;
    std::thread::spawn(|| drop(first)).join().unwrap(); // a thread without a runtime
    drop(next.await.unwrap().unwrap());
    assert_eq!(handed_off(&fixture), 1);
    fixture.settles_within(seconds(1)).await;
    assert_eq!(sent.map(|rule| rule.fired()), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn l6_a_caller_that_is_dropped_with_the_grant_gives_the_lock_back() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let first = fixture.engine.lock("a").acquire().await.unwrap();
    for _ in 0..3 {
        let mut queued = Box::pin(fixture.engine.lock("a").wait(seconds(60)).acquire());
        assert!(poll_once(&mut queued.as_mut()).await.is_none());
        drop(queued); // before the grant
    }
    let mut queued = Box::pin(fixture.engine.lock("a").wait(seconds(60)).acquire());
    assert!(poll_once(&mut queued.as_mut()).await.is_none());
    first.release().await.unwrap();
    assert!(other.lock("a").is_locked().await.unwrap(), "handed off");
    drop(queued); // after it
    other.lock("a").wait(seconds(1)).acquire().await.expect("given back").release().await.unwrap();
    fixture.settles_within(seconds(1)).await;
    assert_eq!(fixture.heard.counts().without_caller, 1);
}

#[tokio::test(start_paused = true)]
async fn s7_a_grant_that_was_handed_off_and_is_taken_too_late_is_not_taken() {
    let fixture = fixture().await;
    let first = fixture.engine.lock("a").acquire().await.unwrap();
    let mut queued = Box::pin(fixture.engine.lock("a").wait(seconds(40)).acquire());
    assert!(poll_once(&mut queued.as_mut()).await.is_none());
    first.release().await.unwrap();
    pass(seconds(31)).await; // the ttl is over
    let other = fixture.other().await.lock("a").acquire().await.unwrap();
    assert!(poll_once(&mut queued.as_mut()).await.is_none(), "it waits again, and is not told that it holds");
    other.release().await.unwrap();
    let second = queued.await.unwrap();
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn s2_behind_a_silent_server_nobody_holds_beyond_the_deadline_of_the_grant() {
    let fixture = fixture().await;
    let granted = now();
    let (mut lease, mut leases) = wanted_by(&fixture, 64).await;
    fixture.faults.cut(Cut::BlackHole);
    let deadline = granted + seconds(30);
    for _ in 0..20 {
        assert!(lease.remaining() <= deadline - now());
        lease.release().await.unwrap();
        lease = leases.recv().await.unwrap();
        pass(millis(2)).await;
    }
    pass(millis(100)).await;
    let told = lease.release().await;
    assert!(matches!(told, Err(ReleaseError::Unknown { .. })), "{told:?}");
    fixture.faults.heal();
    drop(leases);
    fixture.settles_within(seconds(60)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

type Leases = tokio::sync::mpsc::UnboundedReceiver<Lease>;

/// A lease, and the leases of callers that wait for it, as they get them.
async fn wanted_by(fixture: &Fixture, callers: usize) -> (Lease, Leases) {
    let lease = fixture.engine.lock("a").acquire().await.expect("free");
    let (sender, leases) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..callers {
        let (asked, sender) = (fixture.engine.lock("a").wait(seconds(20)).acquire(), sender.clone());
        tokio::spawn(async move { asked.await.map(|lease| drop(sender.send(lease))) });
    }
    breathe().await;
    (lease, leases)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_leaves_no_hold_and_no_caller() {
    let memory = MemoryTransport::new();
    let engine = builder(&memory).build().await.unwrap();
    crowd(&engine, 64, Duration::ZERO);
    pass(millis(50)).await;
    engine.shutdown(seconds(5)).await;
    breathe().await;
    assert_eq!(memory.stored_holds(), 0);
    settles_within(&engine, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_a_list_that_nobody_has_taken_is_not_handed_off() {
    let fixture = fixture().await;
    let list = fixture.engine.acquire_all(["a"]).wait(seconds(60)).start();
    breathe().await; // granted, and not polled
    let next = tokio::spawn(fixture.engine.lock("a").wait(seconds(60)).acquire());
    breathe().await;
    drop(list);
    let lease = next.await.unwrap().unwrap();
    let counts = fixture.heard.counts();
    assert_eq!((counts.without_caller, counts.releases.len(), handed_off(&fixture)), (1, 0, 0));
    drop(lease);
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn l3_a_release_that_is_not_polled_keeps_nobody_waiting() {
    let fixture = fixture().await;
    let (first, next) = wanted(&fixture.engine).await;
    let unpolled = first.release();
    let (lease, took) = timed(next).await;
    assert!(lease.unwrap().unwrap().is_held() && took <= millis(1), "{took:?}");
    unpolled.await.unwrap();
}

// A hand-off puts orders into the inbox of its shard, and no command slows the callers down meanwhile.
#[tokio::test(start_paused = true)]
async fn hand_offs_fill_no_inbox() {
    let config = changed(EngineConfig::default(), |new| new.inbox_max = 400);
    let fixture = ground_with(|builder| builder.config(config)).await;
    sent(&fixture);
    let callers = (0..16).map(|_| {
        let lock = fixture.engine.lock("a");
        tokio::spawn(async move {
            for _ in 0..100 {
                lock.acquire().await.expect("granted").release().await.expect("ours to the end");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    fixture.settles_within(seconds(5)).await;
}
