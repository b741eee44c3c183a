//! Nothing is counted twice and nothing is forgotten. Every wait that started ended in one way or goes on; every lease
//! that was granted was released, whatever the answer, or lost, or is held; grants that found no caller are apart.

use std::pin::pin;

use leasehold::{EngineConfig, LossReason, ReleaseOutcome};
use leasehold_memory::MemoryTransport;
use leasehold_tests::{
    changed,
    conservation::{Numbers, assert_balanced},
};

use crate::fixture::{Fixture, builder, fixture, ground_with, millis, pass, poll_once, seconds};

/// The sums, from the events, from the snapshot and from the metrics of the same engine.
pub fn check(fixture: &Fixture) {
    let (heard, now) = (fixture.heard.counts(), fixture.engine.snapshot());
    let ended =
        heard.granted + heard.shared + heard.refused + heard.timed_out + heard.cancelled + heard.failed;
    assert_eq!(heard.waits, ended + now.waiting, "waits: {heard:?}");
    let (released, lost) = (heard.releases.values().sum::<u64>(), heard.losses.values().sum::<u64>());
    assert_eq!(heard.granted, released + lost + now.held, "leases: {heard:?}");
    assert_eq!((now.granted, now.released, now.lost), (heard.granted, released, lost));
    assert_balanced(&fixture.engine);
}

async fn counted() -> Fixture {
    ground_with(|builder| builder.metrics()).await
}

#[tokio::test(start_paused = true)]
async fn every_outcome_of_a_wait_is_told_once() {
    let fixture = counted().await;
    let (lock, scope) = (fixture.engine.lock("a").class("x"), fixture.engine.reentry());
    let mine = lock.clone().reentry(&scope);
    let first = mine.acquire().await.unwrap();
    let second = mine.acquire().await.unwrap(); // shared
    assert!(lock.try_acquire().await.unwrap().is_none()); // refused
    assert!(lock.clone().wait(millis(50)).acquire().await.is_err()); // timed out
    let dropped = tokio::spawn(lock.acquire());
    let waiting = tokio::spawn(lock.acquire());
    pass(millis(10)).await;
    check(&fixture);
    dropped.abort(); // cancelled
    pass(millis(10)).await;
    check(&fixture);
    assert_eq!(Numbers::of(&fixture.engine).one("leasehold_waiters", &["x", "exclusive"]), 1.0);
    drop(second);
    first.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap()); // granted, dropped
    pass(millis(10)).await;
    check(&fixture);
    let numbers = Numbers::of(&fixture.engine);
    let outcome = |outcome| numbers.one("leasehold_acquire_total", &["x", "exclusive", outcome]);
    let outcomes = ["acquired", "reentrant", "busy", "timeout", "cancelled", "error"].map(outcome);
    assert_eq!(outcomes, [2.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(numbers.one("leasehold_release_total", &["x", "exclusive", "handed_off"]), 1.0);
    assert_eq!(numbers.one("leasehold_release_total", &["x", "exclusive", "dropped"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_share_a_scope_in_the_queue_are_one_grant() {
    let fixture = counted().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let mine = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let both = [tokio::spawn(mine.acquire()), tokio::spawn(mine.acquire())];
    pass(millis(10)).await;
    held.release().await.unwrap();
    let mut leases = Vec::new();
    for lease in both {
        leases.push(lease.await.unwrap().unwrap());
    }
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.shared), (3, 2, 1));
    check(&fixture);
    drop(leases);
    pass(millis(10)).await;
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_with_its_grant_on_the_way_is_cancelled_and_the_grant_counted_apart() {
    let fixture = counted().await;
    let mut acquire = Box::pin(fixture.engine.lock("a").acquire());
    let started = futures_poll(&mut acquire).await;
    assert!(!started);
    pass(millis(10)).await; // granted meanwhile; nobody has taken it
    drop(acquire);
    pass(millis(10)).await;
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.cancelled, heard.without_caller), (1, 0, 1, 1));
    check(&fixture);
}

// Polls it once: whether it is ready.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_ready())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn callers_told_of_a_shutdown_have_failed_and_leases_are_lost() {
    let fixture = counted().await;
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(10)).await;
    fixture.engine.shutdown(seconds(5)).await;
    assert!(waiting.await.unwrap().is_err());
    let heard = fixture.heard.counts();
    assert_eq!((heard.failed, heard.losses[&LossReason::Shutdown]), (1, 1));
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn a_limit_and_a_lost_scope_are_failures() {
    let fixture = ground_with(|builder| {
        builder.config(changed(EngineConfig::default(), |new| new.leases_max = 1)).metrics()
    })
    .await;
    let scope = fixture.engine.reentry();
    let mine = fixture.engine.lock("a").no_renewal().ttl(seconds(1)).reentry(&scope);
    let lease = mine.acquire().await.unwrap();
    assert!(fixture.engine.lock("b").acquire().await.is_err());
    lease.lost().await;
    assert!(fixture.engine.lock("a").reentry(&scope).acquire().await.is_err());
    assert_eq!(fixture.heard.counts().failed, 2);
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_counts_as_released_and_one_too_late_too() {
    let fixture = counted().await;
    let lost = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.other().await.lock("a").force_release().await.unwrap();
    assert!(lost.release().await.is_err());
    let unknown = fixture.engine.lock("b").acquire().await.unwrap();
    fixture.faults.cut(leasehold_memory::Cut::BlackHole);
    assert!(unknown.release().await.is_err());
    let heard = fixture.heard.counts();
    assert_eq!(
        (heard.releases[&ReleaseOutcome::AlreadyLost], heard.releases[&ReleaseOutcome::Unknown]),
        (1, 1)
    );
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn an_uncontended_pair_is_five_events() {
    let fixture = fixture().await;
    fixture.engine.lock("a").acquire().await.unwrap().release().await.unwrap();
    let heard = fixture.heard.counts();
    let events = heard.waits
        + heard.granted
        + heard.asked
        + heard.answered.values().sum::<u64>()
        + heard.releases.values().sum::<u64>();
    assert_eq!((events, fixture.heard.all()), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn gauges_are_of_this_moment() {
    let engine = builder(&MemoryTransport::new()).metrics().build().await.unwrap();
    let lock = engine.lock("a").class("x");
    let _held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(lock.acquire())).collect();
    pass(seconds(2)).await;
    let numbers = Numbers::of(&engine);
    let gauge = |metric| numbers.one(metric, &["x", "exclusive"]);
    let gauges =
        ["leasehold_held", "leasehold_waiters", "leasehold_waiters_max", "leasehold_contended"].map(gauge);
    assert_eq!(gauges, [1.0, 3.0, 3.0, 1.0]);
    for age in ["leasehold_oldest_hold_seconds", "leasehold_oldest_waiter_seconds"] {
        assert!((gauge(age) - 2.0).abs() < 0.01, "{age} {}", gauge(age));
    }
    assert!(!numbers.has("leasehold_clock_offset_seconds"), "memory has no clock but ours");
    assert_eq!(numbers.one("leasehold_backend_redirects_total", &["memory", "moved"]), 0.0);
    let build =
        numbers.total("leasehold_build_info", |labels| labels[..2] == [env!("CARGO_PKG_VERSION"), "memory"]);
    assert_eq!(build, 1.0);
    let metrics = engine.metrics().unwrap();
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(engine.most_contended(), [], "nobody had to wait to the end");
    drop((waiting, _held, lock, engine));
    pass(seconds(5)).await;
    let left = metrics.read().into_iter().find(|family| family.descriptor.name == "leasehold_held");
    assert!(left.unwrap().samples.is_empty(), "an engine that is gone holds nothing");
}

#[tokio::test(start_paused = true)]
async fn the_most_contended_lock_is_named() {
    let fixture = counted().await;
    let held = fixture.engine.lock("hot").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("hot").acquire());
    pass(seconds(3)).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let top = fixture.engine.most_contended();
    assert_eq!((top.len(), &*top[0].name, top[0].waits), (1, "hot", 1));
    assert!(top[0].waited >= seconds(3) && top[0].waited < millis(3_100), "{top:?}");
    pass(seconds(130)).await;
    assert_eq!(fixture.engine.most_contended(), []);
}

#[tokio::test(start_paused = true)]
async fn wake_ups_and_renewals_are_told_apart() {
    let fixture = counted().await;
    let held = fixture.engine.lock("a").ttl(seconds(3)).acquire().await.unwrap();
    let other = builder(&fixture.transport).build().await.unwrap();
    let waiting = tokio::spawn(other.lock("a").acquire());
    pass(seconds(10)).await;
    held.release().await.unwrap();
    let theirs = waiting.await.unwrap().unwrap();
    let mine = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(100)).await;
    theirs.release().await.unwrap();
    mine.await.unwrap().unwrap().release().await.unwrap();
    let numbers = Numbers::of(&fixture.engine);
    assert_eq!(numbers.one("leasehold_wakeups_total", &["default", "exclusive", "notice", "acquired"]), 1.0);
    assert_eq!(numbers.one("leasehold_wakeup_to_acquire_seconds", &["default", "exclusive"]), 1.0);
    let renewed = numbers.one("leasehold_renewals_total", &["default", "exclusive", "renewed"]);
    assert!((9.0..=11.0).contains(&renewed), "10 s at one a second: {renewed}");
    assert_eq!(numbers.one("leasehold_renew_margin_ratio", &["default", "exclusive"]), renewed);
    assert_eq!(numbers.one("leasehold_backend_command_seconds", &["memory", "renew", "ok"]), renewed);
    assert_eq!(numbers.one("leasehold_backend_up", &["memory", "memory"]), 1.0);
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_name_of_a_list_is_a_wait_of_its_own_of_its_own_class() {
    let classes = [("n1".to_owned(), "ones".to_owned())].into();
    let config = changed(EngineConfig::default(), |new| new.classes = classes);
    let fixture = ground_with(|builder| builder.config(config).metrics()).await;
    let held = fixture.engine.lock("n0").class("x").acquire().await.unwrap();
    let list = names(20).into_iter().chain([String::new()]);
    let outcomes = fixture.engine.acquire_all(list).wait(seconds(1)).await;
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.timed_out, heard.failed), (21, 20, 1, 0));
    check(&fixture);
    let numbers = Numbers::of(&fixture.engine);
    assert_eq!(numbers.one("leasehold_held", &["ones", "exclusive"]), 11.0, "n1 and n10 to n19");
    assert_eq!(numbers.one("leasehold_acquire_total", &["default", "exclusive", "timeout"]), 1.0);
    drop((outcomes, held));
    fixture.settles_within(seconds(1)).await;
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn a_list_dropped_in_the_middle_was_cancelled_and_its_grants_are_counted_apart() {
    let fixture = counted().await;
    let held = fixture.engine.lock("n0").acquire().await.unwrap();
    let mut acquiring = fixture.engine.acquire_all(names(1_000)).class("x").start();
    let (_, taken) = acquiring.next().await.unwrap();
    pass(millis(10)).await; // granted meanwhile; nobody has taken them
    drop(acquiring);
    pass(millis(10)).await;
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.cancelled), (1_001, 2, 999));
    assert!(heard.without_caller > 0, "{heard:?}");
    check(&fixture);
    drop((taken, held));
    fixture.settles_within(seconds(1)).await;
    check(&fixture);
    let numbers = Numbers::of(&fixture.engine);
    assert_eq!(numbers.one("leasehold_release_total", &["x", "exclusive", "dropped"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn names_of_a_list_that_are_told_of_a_shutdown_have_failed() {
    let fixture = counted().await;
    let other = fixture.other().await;
    let _held = other.lock("n0").acquire().await.unwrap();
    let engine = fixture.engine.clone();
    let outcomes = tokio::spawn(async move { engine.acquire_all(names(100)).await.len() });
    pass(millis(10)).await;
    let report = fixture.engine.shutdown(seconds(5)).await;
    assert_eq!(report.released, 99);
    assert_eq!(outcomes.await.unwrap(), 100);
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.failed), (100, 99, 1));
    check(&fixture);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_granted_and_released_under_the_labels_of_the_caller_that_took_it_first() {
    let fixture = counted().await;
    let lock = fixture.engine.rw_lock("a");
    let (one, other) = (lock.read().class("x"), lock.read().class("y"));
    let held = lock.write().acquire().await.unwrap();
    let mut first = pin!(one.acquire());
    assert!(poll_once(&mut first).await.is_none());
    held.release().await.unwrap();
    pass(millis(10)).await;
    let joined = other.acquire().await.unwrap(); // the first caller has not looked at its grant yet
    let first = first.await.unwrap();
    check(&fixture);
    for lease in [joined, first] {
        lease.release().await.unwrap();
        check(&fixture);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_scope_that_takes_the_write_lease_first_is_balanced_too() {
    let fixture = counted().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let held = lock.write().acquire().await.unwrap();
    let mut write = pin!(lock.write().reentry(&scope).acquire());
    assert!(poll_once(&mut write).await.is_none());
    let read = tokio::spawn(lock.read().reentry(&scope).acquire());
    pass(millis(10)).await;
    held.release().await.unwrap();
    let reader = read.await.unwrap().unwrap();
    let writer = write.await.unwrap();
    check(&fixture);
    writer.release().await.unwrap();
    pass(millis(100)).await;
    check(&fixture);
    assert!(lock.write().force_release().await.unwrap());
    pass(seconds(15)).await;
    assert!(!reader.is_held());
    check(&fixture);
}
