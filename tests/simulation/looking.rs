//! Looking at a lock from outside, and ending its hold by force.

use leasehold::{InspectError, LockMode, LossReason, key::LockKey};
use leasehold_memory::{Cut, PeerHold};

use crate::fixture::{fixture, millis, seconds, timed};

#[tokio::test(start_paused = true)]
async fn a_free_lock_has_no_holder() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    assert_eq!(lock.holder().await.unwrap(), None);
    assert!(!lock.is_locked().await.unwrap() && !lock.force_release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn everybody_sees_the_same_holder() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let _lease = fixture.engine.lock("a").ttl(seconds(20)).acquire().await.unwrap();
    let (here, there) = (fixture.engine.lock("a").holder(), other.lock("a").holder());
    let (here, there) = (here.await.unwrap().unwrap(), there.await.unwrap().unwrap());
    assert_eq!(here.owner, there.owner);
    assert_eq!((here.is_of_this_engine, there.is_of_this_engine), (true, false));
    for seen in [here, there] {
        assert_eq!((seen.hold_count, seen.remaining), (1, Some(seconds(20))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_described_as_free() {
    let fixture = fixture().await;
    for lock in [fixture.engine.lock("a"), fixture.engine.rw_lock("a").write()] {
        let seen = lock.describe().await.unwrap();
        assert_eq!((seen.mode, seen.remaining, seen.waiting), (LockMode::Free, None, 0));
        assert!(seen.holders.is_empty() && seen.line.is_empty(), "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_description_has_the_token_the_leases_and_the_callers_of_its_own_engine_only() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let scope = fixture.engine.reentry();
    let lock = fixture.engine.lock("a").ttl(seconds(20)).reentry(&scope);
    let (first, _second) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    let _waiting = tokio::spawn(other.lock("a").acquire());
    crate::fixture::breathe().await;
    let (here, there) = (lock.describe().await.unwrap(), other.lock("a").describe().await.unwrap());
    assert_eq!((here.mode, here.waiting), (LockMode::Exclusive, 0));
    assert!(here.remaining.is_some_and(|left| left > seconds(19) && left <= seconds(20)), "{here}");
    assert_eq!((there.mode, there.waiting), (LockMode::Exclusive, 1));
    let (ours, theirs) = (&here.holders[0], &there.holders[0]);
    assert_eq!((ours.leases, ours.hold_count, ours.token), (2, 1, Some(first.fencing_token())));
    assert_eq!((theirs.leases, theirs.hold_count, theirs.token), (0, 1, None));
}

#[tokio::test(start_paused = true)]
async fn each_reader_is_described_with_its_own_time_and_a_writer_as_a_writer() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let _ours = fixture.engine.rw_lock("a").read().ttl(seconds(20)).acquire().await.unwrap();
    let _theirs = other.rw_lock("a").read().ttl(seconds(9)).acquire().await.unwrap();
    let seen = fixture.engine.rw_lock("a").write().describe().await.unwrap();
    assert_eq!((seen.mode, seen.remaining), (LockMode::Read, Some(seconds(20))));
    let shown = |is_ours| seen.holders.iter().find(|holder| holder.is_of_this_engine == is_ours).unwrap();
    assert_eq!((shown(true).remaining, shown(true).leases), (Some(seconds(20)), 1));
    assert_eq!((shown(false).remaining, shown(false).leases), (Some(seconds(9)), 0));
    let _writer = fixture.engine.rw_lock("b").write().acquire().await.unwrap();
    assert_eq!(other.rw_lock("b").read().describe().await.unwrap().mode, LockMode::Write);
}

#[tokio::test(start_paused = true)]
async fn semaphores_and_latches_are_described_with_the_callers_that_wait() {
    let fixture = fixture().await;
    let (permits, latch) = (fixture.engine.semaphore("s"), fixture.engine.latch("l"));
    latch.try_set(2).await.unwrap();
    let (_take, _open) = (tokio::spawn(permits.acquire(1)), tokio::spawn(latch.opened()));
    crate::fixture::breathe().await;
    let (seen, left) = (permits.describe().await.unwrap(), latch.describe().await.unwrap());
    assert_eq!((&*seen.name, seen.available, seen.waiting), ("s", 0, 1));
    assert_eq!((&*left.name, left.count, left.waiting), ("l", 2, 1));
    assert_eq!(left.to_string(), "latch \"l\": 2 left, 1 waiting here");
}

#[tokio::test(start_paused = true)]
async fn a_peers_hold_is_shown_as_it_is() {
    let fixture = fixture().await;
    let key = LockKey::new("", "a").unwrap();
    let peer = PeerHold { owner: "somebody:1".into(), count: 3, ttl: None };
    fixture.transport.inner().put_peer_hold(&key, peer);
    let holder = fixture.engine.lock("a").holder().await.unwrap().unwrap();
    assert_eq!((&*holder.owner, holder.hold_count, holder.remaining), ("somebody:1", 3, None));
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_ends_the_hold_and_wakes_who_waits() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let other = fixture.other().await;
    let waiting = tokio::spawn(other.lock("a").acquire());
    crate::fixture::breathe().await;
    assert!(fixture.engine.lock("a").force_release().await.unwrap());
    let (next, took) = timed(waiting).await;
    assert_eq!(took, millis(0));
    assert_eq!(held.lost().await, LossReason::NotOurs);
    assert!(next.unwrap().unwrap().fencing_token() > held.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn in_a_black_hole_looking_is_an_error_within_one_command_timeout() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::BlackHole);
    let (seen, took) = timed(fixture.engine.lock("a").is_locked()).await;
    assert!(matches!(seen, Err(InspectError::Transport(_))), "{seen:?}");
    assert!(took <= seconds(1), "{took:?}");
}
