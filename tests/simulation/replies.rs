//! The reply of each operation: lost, late by one, two and five command timeouts, and repeated; each once.

use std::time::Duration;

use leasehold::{InspectError, LeaseState, ReleaseError};
use leasehold_memory::{Fault, Operation};

use crate::fixture::{fixture, millis, now, pass, seconds, timed};

/// What can happen to one reply. The command timeout is one second.
fn fates() -> Vec<Fault> {
    let late = [1, 2, 5].map(|timeouts| Fault::DelayReply(seconds(timeouts)));
    let repeated = [Fault::Repeat, Fault::RepeatLater(millis(300)), Fault::RepeatLater(seconds(5))];
    [vec![Fault::LoseReply], late.into(), repeated.into()].concat()
}

fn is_answered(fate: Fault) -> bool {
    matches!(fate, Fault::Repeat | Fault::RepeatLater(_))
}

/// One command timeout, the retry's pause, and the timers' grain.
fn bound(fate: Fault) -> Duration {
    if is_answered(fate) { millis(0) } else { millis(1_012) }
}

#[tokio::test(start_paused = true)]
async fn s5_an_acquire_whose_reply_is_lost_late_or_repeated_holds_once() {
    for fate in fates() {
        let fixture = fixture().await;
        let rule = fixture.faults.on(Operation::Acquire).inject(fate);
        let lock = fixture.engine.lock("a");
        let (lease, took) = timed(lock.acquire()).await;
        let lease = lease.unwrap();
        assert!(took <= bound(fate) && lease.is_held(), "{fate:?}: {took:?}");
        // The deadline counts from the send that was answered, and the server keeps at least as long.
        let deadline = now() + lease.remaining();
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!(holder.hold_count, 1, "{fate:?}");
        assert!(deadline + millis(1_500) <= now() + holder.remaining.unwrap(), "{fate:?}");
        if let Fault::RepeatLater(later) = fate {
            // A request that was answered is never sent again, by us or by TCP: the copy comes while it is held.
            pass(later + millis(1)).await;
            assert_eq!(lock.holder().await.unwrap().unwrap().hold_count, 1, "{fate:?}");
        }
        lease.release().await.unwrap();
        assert!(!lock.is_locked().await.unwrap(), "{fate:?}");
        pass(seconds(6)).await;
        rule.until_fired(1).await;
        assert!(!lock.is_locked().await.unwrap(), "{fate:?}: it came back");
        fixture.settles_within(seconds(1)).await;
        let seen = fixture.engine.snapshot();
        assert_eq!((seen.granted, seen.released, seen.lost), (1, 1, 0), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_is_lost_late_or_repeated_is_honest_about_it() {
    for fate in fates() {
        let fixture = fixture().await;
        let lease = fixture.engine.lock("a").acquire().await.unwrap();
        fixture.faults.on(Operation::Release).inject(fate);
        let (released, took) = timed(lease.release()).await;
        match released {
            Ok(()) => assert!(matches!(fate, Fault::RepeatLater(_)), "{fate:?}"),
            // The caller gets the second answer, which found nothing.
            Err(ReleaseError::AlreadyLost(_)) => assert_eq!(fate, Fault::Repeat),
            Err(ReleaseError::Unknown { gone_by, within, .. }) => {
                assert!(!is_answered(fate), "{fate:?}");
                assert_eq!((took, gone_by), (seconds(1), now() + within));
            }
            Err(other) => panic!("{fate:?}: {other:?}"),
        }
        let other = fixture.other().await;
        assert!(other.lock("a").try_acquire().await.unwrap().is_some(), "{fate:?}");
        fixture.settles_within(seconds(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_release_spares_the_next_holder() {
    let fixture = fixture().await;
    for fate in [Fault::RepeatLater(seconds(5)), Fault::DelayRequest(millis(900))] {
        let lease = fixture.engine.lock("a").acquire().await.unwrap();
        fixture.faults.on(Operation::Release).inject(fate);
        drop(lease);
        let next = fixture.engine.lock("a").acquire().await.unwrap();
        pass(seconds(40)).await;
        assert!(next.is_held() && next.release().await.is_ok(), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_reply_is_lost_late_or_repeated_loses_nothing() {
    for fate in fates() {
        let fixture = fixture().await;
        let lease = fixture.engine.lock("a").acquire().await.unwrap();
        let rule = fixture.faults.on(Operation::Renew).inject(fate);
        pass(millis(10_100)).await;
        let before = lease.remaining();
        rule.until_fired(u64::from(fate != Fault::RepeatLater(seconds(5)))).await;
        pass(millis(1_000)).await;
        let jeopardy = if is_answered(fate) { LeaseState::Held } else { LeaseState::Jeopardy };
        assert_eq!(lease.state(), jeopardy, "{fate:?}");
        assert!(lease.remaining() <= before, "{fate:?}: an unknown moves no deadline");
        pass(millis(2_200)).await;
        assert_eq!(lease.state(), LeaseState::Held, "{fate:?}");
        assert!(lease.remaining() > seconds(20), "{fate:?}");
        pass(seconds(100)).await;
        lease.release().await.unwrap();
        fixture.settles_within(seconds(1)).await;
        assert!(!fixture.engine.lock("a").is_locked().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn looking_and_forcing_are_answered_in_time_whatever_becomes_of_the_reply() {
    for fate in fates() {
        let fixture = fixture().await;
        let lock = fixture.engine.lock("a");
        let _lease = lock.acquire().await.unwrap();
        fixture.faults.on(Operation::Inspect).inject(fate);
        let (seen, took) = timed(lock.is_locked()).await;
        assert!(took <= seconds(1), "{fate:?}: {took:?}");
        assert_eq!(seen.is_ok(), is_answered(fate), "{fate:?}");
        fixture.faults.on(Operation::ForceRelease).inject(fate);
        let (forced, took) = timed(lock.force_release()).await;
        assert!(took <= seconds(1), "{fate:?}: {took:?}");
        match forced {
            Ok(was_held) => assert_eq!(was_held, fate != Fault::Repeat, "{fate:?}"),
            Err(InspectError::Transport(_)) => assert!(!is_answered(fate), "{fate:?}"),
            Err(other) => panic!("{other:?}"),
        }
        assert!(!lock.is_locked().await.unwrap(), "{fate:?}: it was executed");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_lost_or_late_themselves_are_asked_again() {
    for fate in [
        Fault::LoseRequest,
        Fault::Reset,
        Fault::DelayRequest(millis(900)),
        Fault::DelayRequest(seconds(2)),
        Fault::Refuse(leasehold::transport::ErrorKind::NotReady),
    ] {
        let fixture = fixture().await;
        fixture.faults.on(Operation::Acquire).inject(fate);
        let (lease, took) = timed(fixture.engine.lock("a").acquire()).await;
        assert!(took <= millis(1_012), "{fate:?}: {took:?}");
        fixture.faults.on(Operation::Renew).inject(fate);
        pass(seconds(15)).await;
        assert_eq!(lease.as_ref().unwrap().state(), LeaseState::Held, "{fate:?}");
        lease.unwrap().release().await.unwrap();
        pass(seconds(4)).await;
        assert!(!fixture.engine.lock("a").is_locked().await.unwrap(), "{fate:?}");
        fixture.settles_within(seconds(1)).await;
    }
}
