//! Looking at a lock from outside, and ending its hold by force.

use leasehold::{InspectError, LossReason, key::LockKey};
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
    assert_eq!(here, there);
    assert_eq!((here.hold_count, here.remaining), (1, Some(seconds(20))));
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
