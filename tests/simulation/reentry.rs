//! Re-entry scopes: one hold on the server, counted here.

use leasehold::{AcquireError, EngineConfig, Lock, LossReason, ReleaseError};
use leasehold_memory::{Fault, Operation};
use leasehold_tests::changed;

use crate::fixture::{breathe, engine, fixture, ground_with, millis, now, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_scope_enters_again_past_every_queued_caller_with_one_command() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let outer = lock.acquire().await.unwrap();
    let queued = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    let (inner, tried) = (lock.acquire().await.unwrap(), lock.try_acquire().await.unwrap().unwrap());
    assert_eq!((outer.hold_count(), inner.hold_count(), fixture.engine.snapshot().asks), (3, 3, 1));
    assert!([&inner, &tried].iter().all(|lease| lease.fencing_token() == outer.fencing_token()));
    assert_eq!(lock.holder().await.unwrap().unwrap().hold_count, 1);
    outer.release().await.unwrap();
    drop(tried);
    pass(seconds(60)).await;
    assert!(inner.is_held() && inner.hold_count() == 1 && !queued.is_finished());
    inner.release().await.unwrap();
    assert!(queued.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn only_the_last_lease_of_a_scope_sends_the_release() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let mut leases = vec![];
    for _ in 0..5 {
        leases.push(lock.acquire().await.unwrap());
    }
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.granted, seen.held), (1, 1), "a re-entry is no grant");
    while leases.len() > 1 {
        leases.pop().unwrap().release().await.unwrap();
        assert!(lock.is_locked().await.unwrap());
    }
    leases.pop().unwrap().release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_queued_caller_of_the_scope_is_joined_and_one_grant_serves_both() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let lock = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let one = tokio::spawn(lock.acquire());
    breathe().await;
    let stranger = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    let two = tokio::spawn(lock.acquire());
    breathe().await;
    held.release().await.unwrap();
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    assert_eq!((one.hold_count(), two.hold_count(), stranger.is_finished()), (2, 2, false));
    assert_eq!(lock.holder().await.unwrap().unwrap().hold_count, 1);
    drop(one);
    two.release().await.unwrap();
    assert!(stranger.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn of_two_joined_callers_one_may_leave() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(300)));
    let lock = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let (one, two) = (tokio::spawn(lock.acquire()), tokio::spawn(lock.acquire()));
    breathe().await;
    one.abort();
    let lease = two.await.unwrap().unwrap();
    assert_eq!(lease.hold_count(), 1);
    lease.release().await.unwrap();
    fixture.settles_within(millis(5)).await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn without_a_scope_or_with_another_one_calls_exclude_each_other() {
    let fixture = fixture().await;
    let lock = |name: &str| fixture.engine.lock(name);
    let _outer = lock("a").reentry(&fixture.engine.reentry()).acquire().await.unwrap();
    assert!(lock("a").try_acquire().await.unwrap().is_none());
    assert!(lock("a").reentry(&fixture.engine.reentry()).try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn inner_terms_that_contradict_the_outer_ones_are_refused_with_both_values() {
    let fixture = fixture().await;
    let scope = fixture.engine.reentry();
    let lock = || fixture.engine.lock("a").reentry(&scope);
    let _outer = lock().ttl(seconds(20)).max_hold(seconds(100)).acquire().await.unwrap();
    let contradictions: [(Lock, &str, &str, &str); 3] = [
        (lock().ttl(seconds(15)), "ttl", "15s", "20s"),
        (lock().no_renewal(), "no_renewal", "true", "renewal"),
        (lock().max_hold(seconds(5)), "max_hold", "5s", "100s"),
    ];
    for (inner, field, value, outer) in contradictions {
        let Err(AcquireError::Invalid(invalid)) = inner.acquire().await else { panic!("{field}") };
        assert_eq!((invalid.field, invalid.value.as_str()), (field, value));
        assert!(invalid.remedy.contains(outer), "{invalid}");
    }
    let same = lock().ttl(seconds(20)).max_hold(seconds(100)).acquire().await.unwrap();
    assert_eq!(same.hold_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_inner_lease_shares_the_deadline_the_renewal_and_max_hold_of_the_outer() {
    let fixture = fixture().await;
    let scope = fixture.engine.reentry();
    let outer = fixture.engine.lock("a").ttl(seconds(6)).max_hold(seconds(12)).reentry(&scope);
    let outer = outer.acquire().await.unwrap();
    let taken = now();
    pass(seconds(11)).await;
    let inner = fixture.engine.lock("a").reentry(&scope).acquire().await.unwrap();
    assert_eq!(inner.remaining(), outer.remaining());
    assert_eq!((inner.lost().await, outer.lost().await), (LossReason::MaxHold, LossReason::MaxHold));
    assert!(now() - taken <= seconds(18));
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_the_scope_gets_no_fresh_grant_until_all_its_leases_are_dropped() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").reentry(&fixture.engine.reentry());
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    fixture.engine.lock("a").force_release().await.unwrap();
    assert_eq!(outer.lost().await, LossReason::NotOurs);
    let refused = lock.try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Lost(LossReason::NotOurs))), "{refused:?}");
    let refused = inner.release().await;
    assert!(matches!(refused, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{refused:?}");
    assert!(matches!(lock.acquire().await, Err(AcquireError::Lost(_))));
    let stranger = fixture.engine.lock("a").acquire().await.unwrap();
    drop((outer, stranger));
    assert!(lock.acquire().await.unwrap().is_held());
    assert_eq!(fixture.engine.snapshot().lost, 1, "one lease, however often entered");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_nobody_has_noticed_yet_is_a_loss_for_the_scope_too() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(2)).no_renewal().reentry(&fixture.engine.reentry());
    let outer = lock.acquire().await.unwrap();
    tokio::time::advance(millis(1_900)).await;
    assert!(!outer.is_held());
    let refused = lock.acquire().await;
    assert!(matches!(refused, Err(AcquireError::Lost(LossReason::Expired))), "{refused:?}");
    drop(outer);
    assert!(lock.acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_scope_of_another_engine_is_refused() {
    let fixture = fixture().await;
    let stranger = engine(fixture.transport.inner()).await.reentry();
    let Err(AcquireError::Invalid(invalid)) = fixture.engine.lock("a").reentry(&stranger).acquire().await
    else {
        panic!("accepted")
    };
    assert!(invalid.field == "reentry" && invalid.remedy.contains("this engine's"), "{invalid}");
}

#[tokio::test(start_paused = true)]
async fn l6_queued_callers_of_one_scope_count_as_callers() {
    let fixture =
        ground_with(|builder| builder.config(changed(EngineConfig::default(), |new| new.waiters_max = 3)))
            .await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    let scope = fixture.engine.reentry();
    let callers: Vec<_> =
        (0..100).map(|_| tokio::spawn(fixture.engine.lock("a").reentry(&scope).acquire())).collect();
    pass(millis(10)).await;
    assert_eq!(fixture.engine.snapshot().waiting, 3);
    held.release().await.unwrap();
    let (mut leases, mut refused) = (vec![], 0);
    for caller in callers {
        match caller.await.unwrap() {
            Ok(lease) => leases.push(lease),
            Err(AcquireError::LimitReached { limit: "waiters_max", value: 3 }) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!((leases.len(), refused), (3, 97));
    leases.push(fixture.engine.lock("a").reentry(&scope).acquire().await.unwrap());
    assert_eq!(leases.len(), 4, "a scope that holds the lock queues nowhere");
}
