//! Every call for permits that expire is dropped at its n-th poll, for n = 1 until it completes. Afterwards every permit
//! is available again, and nothing waits, is held or is on its way.

#![allow(clippy::async_yields_async)] // a stage is set up first, and then hands out the future to be dropped

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use leasehold_memory::{Fault, Operation};
use leasehold_tests::{conservation::assert_balances_within, harness::polling::holds_within};

use crate::fixture::{Fixture, PATIENCE, Stage, block_on, on_every_ground};

on_every_ground!(
    acquire_of_free_permits,
    acquire_of_permits_held_here,
    acquire_of_permits_held_elsewhere,
    acquire_that_waits_in_vain,
    try_acquire,
    release,
    renew,
);

type Polled = Pin<Box<dyn Future<Output = ()> + Send>>;

fn polled(future: impl Future<Output = ()> + Send + 'static) -> Polled {
    Box::pin(future)
}

fn acquire_of_free_permits<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let acquire = stage.engine.permits("a").acquire(2);
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_of_permits_held_here<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let held = stage.engine.permits("a").acquire(TOTAL - 1).await.expect("free");
        let _ended = tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            drop(held);
        });
        let acquire = stage.engine.permits("a").acquire(2);
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_of_permits_held_elsewhere<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let held = stage.other.permits("a").acquire(TOTAL - 1).await.expect("free");
        let _ended = tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            drop(held);
        });
        let acquire = stage.engine.permits("a").acquire(2);
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_that_waits_in_vain<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let acquire = stage.engine.permits("a").wait(SOON).acquire(TOTAL + 1);
        polled(async move { assert!(acquire.await.is_err()) })
    });
}

fn try_acquire<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let tried = stage.engine.permits("a").try_acquire(2);
        polled(async move { drop(tried.await) })
    });
}

fn release<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let permit = stage.engine.permits("a").acquire(2).await.expect("free");
        polled(async move { drop(permit.release().await) })
    });
}

fn renew<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let permit = stage.engine.permits("a").acquire(2).await.expect("free");
        polled(async move { drop(permit.renew(PATIENCE).await) })
    });
}

fn at_every_poll<G: Fixture>(call: impl AsyncFn(&Stage<G>) -> Polled) {
    block_on(async {
        let stage = Stage::<G>::new().await;
        stage.other.permits("a").try_set_total(TOTAL).await.expect("an answer");
        for late in [None, Some(Operation::Acquire), Some(Operation::Release)] {
            let delay = late.map(|what| stage.faults.on(what).always().inject(Fault::DelayReply(SOON)));
            let mut polls = 1;
            while !is_done(call(&stage).await, polls).await {
                settles(&stage).await;
                polls += 1;
            }
            settles(&stage).await;
            if let Some(delay) = delay {
                delay.remove();
            }
        }
    });
}

/// Whether the call was done at this poll; otherwise it is dropped.
async fn is_done(mut call: Polled, polls: u32) -> bool {
    let mut left = polls;
    let done = poll_fn(|context| {
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(PATIENCE, done).await.expect("it goes on")
}

/// Nothing is held, wanted or closed, soon, and every permit is available.
async fn settles<G: Fixture>(stage: &Stage<G>) {
    let is_quiet = || {
        [&stage.engine, &stage.other].iter().all(|engine| {
            let seen = engine.snapshot();
            seen.held + seen.waiting + seen.entries + seen.closing == 0
        })
    };
    let quiet = tokio::task::block_in_place(|| holds_within(PATIENCE, is_quiet));
    assert!(quiet, "{:?} {:?}", stage.engine.snapshot(), stage.other.snapshot());
    let shown = stage.other.permits("a").available().await.expect("an answer");
    assert_eq!(shown, i64::from(TOTAL), "a permit was lost or made");
    assert_balances_within(PATIENCE, &stage.engine);
}

const TOTAL: u32 = 5;
const SOON: Duration = Duration::from_millis(5);
