//! Releases by force while the engine that held the lock has callers that wait for it.

use std::time::Duration;

use leasehold::{Engine, Lease, LeaseState, Lock, LossReason, MultiLock};
use leasehold_memory::{Fault, MemoryTransport, Operation};

use crate::fixture::{
    Fixture, Servers, Traffic, What, breathe, engine, fixture, millis, now, pass, seconds, timed,
};

/// Locks of each kind that can be released by force, with a ttl and without renewal.
fn locks(engine: &Engine) -> [Lock; 6] {
    let locks = [
        engine.lock("plain"),
        engine.fenced_lock("fenced"),
        engine.spin_lock("spin"),
        engine.fair_lock("fair"),
        engine.rw_lock("write").write(),
        engine.rw_lock("read").read(),
    ];
    locks.map(|lock| lock.ttl(seconds(3_600)).no_renewal())
}

/// What waits for the lock: of a read lock, a writer.
fn waiter(engine: &Engine, lock: &Lock) -> Lock {
    if lock.name() == "read" { engine.rw_lock("read").write() } else { lock.clone() }
}

/// Whether the engine learns that its lease is lost, and how long its caller has waited for the lock since then.
async fn released_by(forcing: &Engine, fixture: &Fixture, lock: &Lock, before: bool) -> (Lease, Duration) {
    let held = lock.acquire().await.unwrap();
    pass(millis(300)).await;
    if before {
        assert!(same(forcing, lock).force_release().await.unwrap());
    }
    let next = tokio::spawn(waiter(&fixture.engine, lock).acquire());
    pass(millis(300)).await;
    if !before {
        assert!(same(forcing, lock).force_release().await.unwrap());
    }
    let (next, took) = timed(next).await;
    assert!(next.unwrap().unwrap().is_held());
    (held, took)
}

/// The same lock of this engine.
fn same(engine: &Engine, lock: &Lock) -> Lock {
    locks(engine).into_iter().find(|other| other.name() == lock.name()).expect("a lock of each kind")
}

#[tokio::test(start_paused = true)]
async fn with_the_answer_the_engines_own_leases_are_lost_and_its_callers_are_granted() {
    let fixture = fixture().await;
    for lock in locks(&fixture.engine) {
        let (held, took) = released_by(&fixture.engine, &fixture, &lock, false).await;
        assert_eq!(held.state(), LeaseState::Lost(LossReason::NotOurs), "{lock:?}");
        assert!(took <= millis(30), "{lock:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_second_and_a_tenth_for_a_hold_that_another_client_has_ended() {
    for before in [true, false] {
        let fixture = fixture().await;
        let other = fixture.other().await;
        for lock in locks(&fixture.engine) {
            let (held, took) = released_by(&other, &fixture, &lock, before).await;
            assert!(took <= millis(1_100), "{lock:?}, {before}: {took:?}");
            assert_eq!(held.state(), LeaseState::Lost(LossReason::NotOurs), "{lock:?}, {before}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_lost_with_the_answer_too() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    assert!(fixture.engine.lock("a").force_release().await.unwrap());
    assert_eq!(held.state(), LeaseState::Lost(LossReason::NotOurs));
    let (lost, took) = timed(held.lost()).await;
    assert_eq!((lost, took), (LossReason::NotOurs, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_release_by_force_ends_the_leases_of_every_kind_with_the_name() {
    let fixture = fixture().await;
    let engine = &fixture.engine;
    let locks = |name: &str| [engine.lock(name), engine.fair_lock(name), engine.rw_lock(name).read()];
    for (held, forced) in [(0, 1), (1, 2), (2, 0)] {
        let name = format!("{held} by {forced}");
        let lease = locks(&name)[held].acquire().await.unwrap();
        assert!(locks(&name)[forced].force_release().await.unwrap(), "{name}");
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::NotOurs), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_granted_after_the_release_was_sent_stays() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::ForceRelease).inject(Fault::DelayReply(millis(50)));
    let forced = tokio::spawn(fixture.engine.lock("a").force_release());
    breathe().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    assert!(!forced.await.unwrap().unwrap(), "the lock was free");
    assert_eq!(held.state(), LeaseState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_release_by_force_without_an_answer_ends_no_lease() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::ForceRelease).inject(Fault::LoseRequest);
    fixture.engine.lock("a").force_release().await.expect_err("no answer");
    pass(seconds(60)).await;
    assert_eq!(held.state(), LeaseState::Held);
}

#[tokio::test(start_paused = true)]
async fn while_a_caller_waits_for_a_lease_of_its_engine_the_server_is_asked_once_a_second() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let held = engine.lock("a").ttl(seconds(60)).no_renewal().acquire().await.unwrap();
    pass(seconds(5)).await;
    let waiting: Vec<_> =
        (0..3).map(|_| tokio::spawn(engine.lock("a").wait(seconds(40)).acquire())).collect();
    pass(seconds(10)).await;
    let asked = traffic.count(What::Acquire) - 1;
    assert!((9..=11).contains(&asked), "{asked} in ten seconds");
    held.release().await.unwrap();
    let released = now();
    for caller in waiting {
        caller.await.unwrap().unwrap().release().await.unwrap();
    }
    assert!(now() - released < millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_only_tries_finds_out_as_early() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    for lock in locks(&fixture.engine) {
        let held = lock.acquire().await.unwrap();
        assert!(same(&other, &lock).force_release().await.unwrap());
        let trying = waiter(&fixture.engine, &lock);
        let (mut tries, mut next) = (0, None);
        while next.is_none() {
            next = trying.try_acquire().await.unwrap();
            pass(millis(100)).await;
            tries += 1;
        }
        assert!(tries <= 12, "{lock:?}: {tries}");
        assert_eq!(held.state(), LeaseState::Lost(LossReason::NotOurs), "{lock:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_that_only_try_ask_the_server_once_a_second() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    for lock in locks(&engine) {
        let _held = lock.acquire().await.unwrap();
        pass(seconds(5)).await;
        traffic.clear();
        for _ in 0..100 {
            assert!(waiter(&engine, &lock).try_acquire().await.unwrap().is_none());
            pass(millis(100)).await;
        }
        let asked = traffic.count(What::Acquire);
        assert!((9..=11).contains(&asked), "{lock:?}: {asked} in ten seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_of_a_multi_lock_and_of_a_quorum_find_out_too() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let both = MultiLock::of(["a", "b"].map(|name| fixture.engine.lock(name).ttl(seconds(60)).no_renewal()));
    let held = both.acquire().await.unwrap();
    let next = tokio::spawn(both.acquire());
    breathe().await;
    assert!(other.lock("a").force_release().await.unwrap() && other.lock("b").force_release().await.unwrap());
    let (next, took) = timed(next).await;
    assert!(next.unwrap().unwrap().is_held() && !held.is_held());
    assert!(took <= millis(1_200), "{took:?}");

    let servers = Servers::new(3);
    let (process, operator) = (servers.process().await, servers.healthy_process().await);
    let lock = process.lock().ttl(seconds(60)).no_renewal();
    let held = lock.acquire().await.unwrap();
    let next = tokio::spawn(lock.acquire());
    breathe().await;
    for engine in &operator.engines {
        assert!(engine.lock("a").force_release().await.unwrap());
    }
    let (next, took) = timed(next).await;
    assert!(next.unwrap().unwrap().is_held() && !held.is_held());
    assert!(took <= millis(1_500), "{took:?}");
}
