//! What a caller is told whose wait is over: that the lock was held, or that the servers said nothing definite (L3).

use leasehold::{AcquireError, Lease, transport::ErrorKind};
use leasehold_memory::{Cut, Fault, Operation};

use crate::fixture::{
    Fixture, breathe, builder, engine, fixture, millis, now, pass, poll_once, seconds, timed,
};

type Outcome = Result<Lease, AcquireError>;

fn is_timed_out(outcome: &Outcome) -> bool {
    matches!(outcome, Err(AcquireError::TimedOut { .. }))
}

fn is_unavailable(outcome: &Outcome) -> bool {
    matches!(outcome, Err(AcquireError::Unavailable { last_error: Some(_), .. }))
}

async fn acquire(fixture: &Fixture, wait_ms: u64) -> (Outcome, std::time::Duration) {
    timed(fixture.engine.lock("a").wait(millis(wait_ms)).acquire()).await
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_of_zero_is_one_ask_and_takes_a_free_lock() {
    let fixture = fixture().await;
    let asks = || fixture.engine.snapshot().asks;
    let other = fixture.other().await;
    for round in 1..=3 {
        let (lease, took) = acquire(&fixture, 0).await;
        assert_eq!((lease.unwrap().is_held(), took, asks()), (true, millis(0), 2 * round - 1));
        breathe().await;
        let held = other.lock("a").acquire().await.unwrap();
        let (refused, took) = acquire(&fixture, 0).await;
        assert!(is_timed_out(&refused), "{refused:?}");
        assert_eq!((took, asks()), (millis(0), 2 * round));
        held.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_of_zero_behind_a_lease_of_its_engine_asks_nothing() {
    let fixture = fixture().await;
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    let (refused, took) = acquire(&fixture, 0).await;
    assert!(is_timed_out(&refused), "{refused:?}");
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(0), 1));
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_of_zero_beside_a_caller_that_waits_knows_its_answer() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let _waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(100)).await;
    let asks = fixture.engine.snapshot().asks;
    let (refused, took) = acquire(&fixture, 0).await;
    assert!(is_timed_out(&refused), "{refused:?}");
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(0), asks));
}

#[tokio::test(start_paused = true)]
async fn l3_many_names_with_a_wait_of_zero_are_asked_for_once_each() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("b").acquire().await.unwrap();
    let all = fixture.engine.acquire_all(["a", "b", "c"]).wait(millis(0)).await;
    assert!(all[0].is_ok() && is_timed_out(&all[1]) && all[2].is_ok(), "{all:?}");
    assert_eq!(fixture.engine.snapshot().asks, 3);
    fixture.faults.cut(Cut::Refused);
    let all = fixture.engine.acquire_all(["d", "e"]).wait(millis(0)).await;
    assert!(all.iter().all(is_unavailable), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn l3_a_short_wait_stays_for_the_answer_of_a_slow_server() {
    for wait in [0, 1, 399] {
        let fixture = fixture().await;
        fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(400)));
        let (lease, took) = acquire(&fixture, wait).await;
        assert_eq!((lease.unwrap().is_held(), took), (true, millis(400)));
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_in_an_outage_ends_unavailable_with_the_trouble() {
    for (cut, kind) in [
        (Cut::BlackHole, ErrorKind::TimedOut),
        (Cut::RepliesLost, ErrorKind::TimedOut),
        (Cut::Refused, ErrorKind::Unreachable),
    ] {
        let fixture = fixture().await;
        fixture.faults.cut(cut);
        for wait in [0, 1, 700, 3_000, 5_000] {
            let (refused, took) = acquire(&fixture, wait).await;
            let Err(AcquireError::Unavailable { after, last_error: Some(last_error) }) = refused else {
                panic!("{cut:?}, {wait} ms: {refused:?}")
            };
            assert_eq!((after, last_error.kind), (took, kind), "{cut:?}, {wait} ms");
            assert!(took >= millis(wait) && took <= millis(wait + 1_000), "{cut:?}, {wait} ms: {took:?}");
        }
        let counts = fixture.heard.counts();
        assert_eq!((counts.failed, counts.timed_out), (5, 0), "an outage is no contention");
        assert!(fixture.engine.most_contended().is_empty(), "the lock was never held");
    }
}

#[tokio::test(start_paused = true)]
async fn l3_an_engine_that_reached_no_server_is_unavailable() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::Refused);
    let engine = builder(&fixture.transport).connect_later().unwrap();
    let (refused, took) = timed(engine.lock("a").wait(seconds(2)).acquire()).await;
    assert!(is_unavailable(&refused), "{refused:?}");
    assert_eq!(took, seconds(2));
}

#[tokio::test(start_paused = true)]
async fn l3_a_lock_that_was_held_before_the_outage_is_timed_out() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").wait(seconds(5)).acquire());
    pass(millis(1_500)).await;
    fixture.faults.cut(Cut::BlackHole);
    pass(millis(500)).await;
    let after_it = tokio::spawn(fixture.engine.lock("a").wait(seconds(3)).acquire());
    let (told, told_after_it) = (waiting.await.unwrap(), after_it.await.unwrap());
    assert!(is_timed_out(&told), "it was told held while it waited: {told:?}");
    assert!(is_unavailable(&told_after_it), "no server said so while it waited: {told_after_it:?}");
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_behind_a_lease_that_an_outage_ended_is_timed_out() {
    let fixture = fixture().await;
    let _held = fixture.engine.lock("a").ttl(seconds(2)).acquire().await.unwrap();
    fixture.faults.cut(Cut::BlackHole);
    let (refused, took) = acquire(&fixture, 4_000).await;
    assert!(is_timed_out(&refused), "{refused:?}");
    assert!(took >= seconds(4) && took <= seconds(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_that_comes_during_an_ask_is_asked_for_after_it() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).nth(1).inject(Fault::LoseRequest);
    let _first = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(100)).await;
    let (refused, took) = acquire(&fixture, 0).await;
    assert!(is_timed_out(&refused), "the first caller has it: {refused:?}");
    assert_eq!((took, fixture.engine.snapshot().asks), (millis(910), 2));
}

#[tokio::test(start_paused = true)]
async fn l3_a_wait_ends_one_command_timeout_later_at_most() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::BlackHole);
    let _first = tokio::spawn(fixture.engine.lock("a").acquire());
    for (came, wait) in [(900, 0), (1_500, 50), (2_050, 1)] {
        let engine = fixture.engine.clone();
        tokio::spawn(async move {
            pass(millis(came)).await;
            let (refused, took) = timed(engine.lock("a").wait(millis(wait)).acquire()).await;
            assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
            assert!(took >= millis(wait) && took <= millis(wait + 1_000), "{came}: {took:?}");
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_grant_that_goes_back_keeps_no_caller_longer() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).nth(1).inject(Fault::DelayReply(millis(950)));
    fixture.faults.on(Operation::Release).nth(1).inject(Fault::LoseReply);
    let mut first = Box::pin(fixture.engine.lock("a").ttl(seconds(20)).acquire());
    assert!(poll_once(&mut first.as_mut()).await.is_none());
    breathe().await;
    drop(first);
    let begun = now();
    let refused = fixture.engine.lock("a").ttl(seconds(30)).wait(millis(10)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
    assert_eq!(now() - begun, millis(1_010));
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_a_wait_of_zero_is_granted() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::Refused);
    let _waiting = tokio::spawn(engine(fixture.transport.inner()).await.lock("b").acquire());
    assert!(is_unavailable(&acquire(&fixture, 0).await.0));
    fixture.faults.heal();
    assert!(acquire(&fixture, 0).await.0.unwrap().is_held());
}
