//! Fair locks on a server that keeps its lines and makes no new place, as one does that is out of memory.

use leasehold::{AcquireError, Engine, transport::ErrorKind};
use leasehold_memory::{Fault, Operation};
use tokio::{task::JoinHandle, time::timeout};

use crate::fixture::{Fixture, breathe, ground_with, millis, pass, seconds, timed};

async fn fixture() -> Fixture {
    ground_with(|builder| builder.unavailable_after(seconds(4))).await
}

/// A caller without a limit: the error that it is told, and whether it was granted the lock and gave it back.
async fn caller(engine: &Engine) -> JoinHandle<Result<(), AcquireError>> {
    let acquire = engine.fair_lock("a").acquire();
    let waiting = tokio::spawn(async move { acquire.await.map(drop) });
    breathe().await;
    waiting
}

fn refuse_new_places(fixture: &Fixture) {
    fixture.faults.on(Operation::Acquire).always().inject(Fault::Refuse(ErrorKind::NotReady));
}

fn assert_refused(refused: Result<(), AcquireError>) {
    let Err(AcquireError::Unavailable { after, last_error }) = refused else { panic!("{refused:?}") };
    assert_eq!((after, last_error.map(|error| error.kind)), (seconds(4), Some(ErrorKind::NotReady)));
}

#[tokio::test(start_paused = true)]
async fn l3_a_caller_that_gets_no_place_is_told_unavailable_while_older_places_beat() {
    let fixture = fixture().await;
    let held = fixture.other().await.fair_lock("a").acquire().await.expect("free");
    let older = caller(&fixture.engine).await;
    pass(seconds(3)).await;
    refuse_new_places(&fixture);
    let newcomer = caller(&fixture.engine).await;
    let (refused, took) = timed(timeout(seconds(60), newcomer)).await;
    assert_refused(refused.expect("an answer").expect("no panic"));
    assert!((seconds(3)..=seconds(4)).contains(&took), "{took:?}");
    pass(seconds(30)).await;
    assert!(!older.is_finished(), "its place is kept");
    fixture.faults.clear();
    held.release().await.expect("held to the end");
    older.await.expect("no panic").expect("granted");
    fixture.settles_within(seconds(5)).await;
}

/// One ask at a time is repeated, and no caller is told later for that.
#[tokio::test(start_paused = true)]
async fn l3_each_of_many_callers_that_get_no_place_is_told_in_time() {
    let fixture = fixture().await;
    let held = fixture.other().await.fair_lock("a").acquire().await.expect("free");
    let older = caller(&fixture.engine).await;
    refuse_new_places(&fixture);
    let newcomers: Vec<_> = (0..500).map(|_| tokio::spawn(fixture.engine.fair_lock("a").acquire())).collect();
    let before = fixture.engine.snapshot().asks;
    let (_, took) = timed(async {
        for newcomer in newcomers {
            let refused = timeout(seconds(60), newcomer).await.expect("an answer");
            assert_refused(refused.expect("no panic").map(drop));
        }
    })
    .await;
    assert!(took <= millis(4_500), "{took:?}");
    let asks = fixture.engine.snapshot().asks - before;
    assert!(asks <= 64 + 50, "{asks} asks: after the first failures one at a time is repeated");
    fixture.faults.clear();
    held.release().await.expect("held to the end");
    older.await.expect("no panic").expect("granted");
    fixture.settles_within(seconds(5)).await;
}
