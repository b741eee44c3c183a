//! Every call on a semaphore or a latch is dropped at its n-th poll, for n = 1 until it completes; afterwards the number is
//! what the call's promise says, and nothing waits or is on its way.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use leasehold::Engine;
use leasehold_memory::{Fault, Operation};
use leasehold_tests::harness::polling::holds_within;

use crate::fixture::{Fixture, PATIENCE, Stage, block_on};

mod memory {
    crate::fixture::on_one!(Memory: a_dropped_take_takes_nothing, a_dropped_release_counts_once, a_dropped_step_counts_once);
}
mod redis {
    crate::fixture::on_one!(Redis: a_dropped_take_takes_nothing, a_dropped_release_counts_once, a_dropped_step_counts_once);
}

type Polled = Pin<Box<dyn Future<Output = i64> + Send>>;

const START: i64 = 5;

/// A try, a wait that ends in time, one that does not, and a drain.
fn a_dropped_take_takes_nothing<G: Fixture>() {
    at_every_poll::<G>("semaphore", |engine| {
        let permits = engine.semaphore("a");
        vec![
            Box::pin({
                let take = permits.acquire(2);
                async move { -take.await.map_or(0, |()| 2) }
            }),
            Box::pin({
                let take = permits.try_acquire(3);
                async move { if take.await.unwrap_or(false) { -3 } else { 0 } }
            }),
            Box::pin({
                let take = permits.clone().wait(SOON).acquire(9);
                async move { -take.await.map_or(0, |()| 9) }
            }),
            Box::pin({
                let drain = permits.drain();
                async move { -drain.await.unwrap_or(0) }
            }),
        ]
    });
}

/// Whether it was dropped or not.
fn a_dropped_release_counts_once<G: Fixture>() {
    at_every_poll::<G>("release", |engine| {
        let release = engine.semaphore("a").release(2);
        vec![Box::pin(async move { release.await.map_or(0, |()| 2) })]
    });
}

fn a_dropped_step_counts_once<G: Fixture>() {
    at_every_poll::<G>("latch", |engine| {
        let step = engine.latch("a").count_down();
        vec![Box::pin(async move { step.await.map_or(0, |_| -1) })]
    });
}

fn at_every_poll<G: Fixture>(what: &str, calls: impl Fn(&Engine) -> Vec<Polled>) {
    block_on(async {
        let (stage, mut dropped) = (Stage::<G>::new().await, 0);
        for is_late in [false, true] {
            let delay =
                is_late.then(|| stage.faults.on(Operation::Count).always().inject(Fault::DelayReply(SOON)));
            for kind in 0..calls(&stage.engine).len() {
                let mut polls = 1;
                while !is_done(&stage, what, polls, &calls, kind).await {
                    polls += 1;
                }
                dropped += polls - 1;
            }
            if let Some(delay) = delay {
                delay.remove();
            }
        }
        assert!(dropped > 0, "every call was done at its first poll");
    });
}

/// Whether the call was done at this poll; otherwise it is dropped.
async fn is_done<G: Fixture>(
    stage: &Stage<G>,
    what: &str,
    polls: u32,
    calls: &impl Fn(&Engine) -> Vec<Polled>,
    kind: usize,
) -> bool {
    reset(stage).await;
    stage.other.semaphore("a").add(START as i32).await.expect("an answer");
    let mut call = calls(&stage.engine).remove(kind);
    let mut left = polls;
    let done = poll_fn(|context| {
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(moved) => Poll::Ready(Some(moved)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    let done = tokio::time::timeout(PATIENCE, done).await.expect("it goes on");
    drop(call);
    let quiet = tokio::task::block_in_place(|| {
        holds_within(PATIENCE, || {
            let seen = stage.engine.snapshot();
            seen.waiting + seen.entries == 0
        })
    });
    assert!(quiet, "{:?}", stage.engine.snapshot());
    let moved = match (what, done) {
        (_, Some(moved)) => moved,
        ("release", None) => 2,
        ("latch", None) => -1,
        (_, None) => 0,
    };
    let shown = stage.other.semaphore("a").available().await.expect("an answer");
    assert_eq!(shown, START + moved, "{what}, dropped after {polls} polls");
    done.is_some()
}

async fn reset<G: Fixture>(stage: &Stage<G>) {
    stage.other.semaphore("a").drain().await.expect("an answer");
}

const SOON: Duration = Duration::from_millis(5);
