//! `run`: the work, its end, and which of several errors is told.

use std::sync::{Arc, Mutex};

use leasehold::{AcquireError, Lease, LossReason, RunError};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation};

use crate::fixture::{Traffic, TrafficLog, What, engine, fixture, millis, pass, seconds, timed};

type Outcome = Result<u8, RunError<&'static str>>;

#[tokio::test(start_paused = true)]
async fn it_acquires_works_and_releases() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let done: Outcome = lock
        .run(async |lease: &Lease| {
            pass(seconds(90)).await;
            assert!(lease.is_held());
            Ok(7)
        })
        .await;
    assert_eq!(done.unwrap(), 7);
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_fails_starts_no_work() {
    let fixture = fixture().await;
    let _held = fixture.engine.lock("a").acquire().await.unwrap();
    let lock = fixture.engine.lock("a").wait(millis(5));
    let done: Outcome = lock.run(async |_: &Lease| panic!("must not start")).await;
    assert!(matches!(done, Err(RunError::Acquire(AcquireError::TimedOut { .. }))), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn the_works_error_wins_over_loss_and_release() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let done: Outcome = lock
        .run(async |_: &Lease| {
            lock.force_release().await.unwrap();
            Err("work")
        })
        .await;
    assert!(matches!(done, Err(RunError::Work("work"))), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_drops_the_work_and_is_told() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(2)).no_renewal();
    let (done, took) = timed(lock.run(async |_: &Lease| {
        pass(seconds(1_000)).await;
        Ok::<u8, &str>(1)
    }))
    .await;
    assert!(matches!(done, Err(RunError::Lost(LossReason::Expired))), "{done:?}");
    assert!(took >= millis(1_900) && took <= millis(2_000), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_nobody_has_noticed_wins_over_the_release() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(2)).no_renewal();
    let done: Outcome = lock
        .run(async |_: &Lease| {
            tokio::time::advance(millis(1_900)).await;
            Ok(1)
        })
        .await;
    assert!(matches!(done, Err(RunError::Lost(LossReason::Expired))), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_confirmed_is_told_last() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Release).inject(Fault::LoseReply);
    let done: Outcome = fixture.engine.lock("a").run(async |_: &Lease| Ok(1)).await;
    assert!(matches!(done, Err(RunError::Release(_))), "{done:?}");
}

/// Notes, when the work is dropped, how many releases had been sent.
struct DroppedWork(TrafficLog, Arc<Mutex<Vec<usize>>>);

impl Drop for DroppedWork {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.count(What::Release));
    }
}

#[tokio::test(start_paused = true)]
async fn the_work_is_dropped_before_the_release_is_sent() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let dropped = Arc::new(Mutex::new(vec![]));
    let (log, notes) = (&traffic.hand, &dropped);
    let work = async |_: &Lease| {
        let _noted = DroppedWork(log.clone(), notes.clone());
        pass(seconds(1_000)).await;
        Ok::<u8, &str>(1)
    };
    let lock = engine.lock("a").ttl(seconds(2)).no_renewal();
    lock.run(work).await.unwrap_err(); // lost
    crate::fixture::settles_within(&engine, seconds(1)).await;
    assert_eq!((log.count(What::Release), dropped.lock().unwrap().clone()), (1, vec![0]));
    drop(tokio::time::timeout(seconds(1), lock.run(work)).await); // dropped
    crate::fixture::settles_within(&engine, seconds(1)).await;
    assert_eq!((log.count(What::Release), dropped.lock().unwrap().clone()), (2, vec![0, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_work_gives_the_lock_back() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let running = tokio::spawn({
        let lock = lock.clone();
        async move {
            let held = lock.acquire().await.unwrap();
            assert!(!held.is_held(), "on purpose");
        }
    });
    assert!(running.await.unwrap_err().is_panic());
    assert!(lock.wait(millis(10)).acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn in_a_cut_the_work_ends_at_the_deadline() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(10));
    let (done, took) = timed(lock.run(async |lease: &Lease| {
        fixture.faults.cut(Cut::BlackHole);
        lease.lost().await;
        pass(seconds(1)).await;
        Ok::<u8, &str>(1)
    }))
    .await;
    assert!(matches!(done, Err(RunError::Lost(LossReason::Expired))), "{done:?}");
    assert!(took >= millis(9_500) && took <= millis(9_600), "{took:?}");
}
