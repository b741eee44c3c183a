//! `try_acquire`: when it asks, when it knows, and when it says that it does not know.

use leasehold::{AcquireError, LeaseState};
use leasehold_memory::{Cut, Fault, Operation};

use crate::fixture::{breathe, fixture, millis, pass, seconds, timed};

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_with_one_command() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").try_acquire().await.unwrap().unwrap();
    assert!(lease.is_held());
    assert_eq!(fixture.engine.snapshot().asks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_held_by_this_engine_is_known_to_be_held_without_a_command() {
    let fixture = fixture().await;
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    for _ in 0..10 {
        assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_none());
    }
    assert_eq!(fixture.engine.snapshot().asks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_held_elsewhere_costs_one_command() {
    let fixture = fixture().await;
    let held = fixture.other().await.lock("a").acquire().await.unwrap();
    for tries in 1..=5 {
        let (tried, took) = timed(fixture.engine.lock("a").try_acquire()).await;
        assert!(tried.unwrap().is_none());
        assert_eq!((took, fixture.engine.snapshot().asks), (millis(0), tries));
    }
    held.release().await.unwrap();
    assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn while_somebody_waits_the_last_definite_answer_is_enough() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let _waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(100)).await;
    let asks = fixture.engine.snapshot().asks;
    assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(fixture.engine.snapshot().asks, asks);
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_the_answer_to_an_ask_that_is_under_way() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(400)));
    let _waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(100)).await;
    let (tried, took) = timed(fixture.engine.lock("a").try_acquire()).await;
    assert!(tried.unwrap().is_none());
    assert_eq!(took, millis(300));
}

#[tokio::test(start_paused = true)]
async fn l3_in_a_black_hole_it_is_unavailable_and_not_none() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::BlackHole);
    let (tried, took) = timed(fixture.engine.lock("a").try_acquire()).await;
    assert!(matches!(tried, Err(AcquireError::Unavailable { .. })), "{tried:?}");
    assert!(took >= seconds(10) && took <= seconds(11), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn behind_a_lease_in_jeopardy_the_server_is_asked() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.cut_lane(leasehold::transport::LanePurpose::Renewals, Cut::BlackHole);
    pass(seconds(12)).await;
    assert_eq!((held.state(), fixture.engine.snapshot().asks), (LeaseState::Jeopardy, 1));
    let (tried, took) = timed(fixture.engine.lock("a").try_acquire()).await;
    assert!(tried.unwrap().is_none());
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(0), 2));
    assert!(held.is_held());
    fixture.faults.heal();
    while held.state() == LeaseState::Jeopardy {
        pass(millis(100)).await;
    }
    assert_eq!(held.state(), LeaseState::Held);
    assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(fixture.engine.snapshot().asks, 2);
}

#[tokio::test(start_paused = true)]
async fn it_takes_its_turn_behind_those_who_wait() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    drop(held);
    assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_none());
    assert!(waiting.await.unwrap().unwrap().is_held());
}
