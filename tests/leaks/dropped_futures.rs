//! Every public async function is dropped at its n-th poll, for n = 1 until it completes, and also when it was woken and
//! not polled again; afterwards nothing is left.

#![allow(clippy::async_yields_async)] // a stage is set up first, and then hands out the future to be dropped

use std::{future::poll_fn, pin::Pin, sync::Mutex, task::Poll, time::Duration};

use leasehold::{Engine, Lease, MultiLock, Quorum};
use leasehold_memory::{Cut, Fault, Faulty, MemoryTransport, Operation};
use leasehold_tests::conservation::{Numbers, assert_ends_balanced_within};

use crate::fixture::{Fixture, PATIENCE, Stage, block_on, on_every_ground};

on_every_ground!(
    acquire_of_a_free_lock,
    acquire_of_a_lock_held_here,
    acquire_of_a_lock_held_elsewhere,
    acquire_that_waits_in_vain,
    acquire_of_a_fenced_lock_held_elsewhere,
    acquire_of_a_spin_lock_held_elsewhere,
    acquire_of_a_fair_lock_held_elsewhere,
    try_acquire,
    run,
    multi_acquire,
    multi_release,
    quorum_acquire,
    quorum_release,
    release,
    renew,
    holder,
    is_locked,
    force_release,
    lost,
    losses_next,
    shutdown,
    build,
);

type Polled = Pin<Box<dyn Future<Output = ()> + Send>>;

fn polled(future: impl Future<Output = ()> + Send + 'static) -> Polled {
    Box::pin(future)
}

fn acquire_of_a_free_lock<G: Fixture>() {
    grants_come_without_caller::<G>(async |stage| {
        let acquire = stage.engine.lock("a").class(TESTED).acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_of_a_lock_held_here<G: Fixture>() {
    grants_come_without_caller::<G>(async |stage| contended(stage, hold(&stage.engine, "a").await));
}

fn acquire_of_a_lock_held_elsewhere<G: Fixture>() {
    grants_come_without_caller::<G>(async |stage| contended(stage, hold(&stage.other, "a").await));
}

fn acquire_of_a_fenced_lock_held_elsewhere<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        give_back_soon(stage.other.fenced_lock("a").wait(PATIENCE).acquire().await.expect("free"));
        let acquire = stage.engine.fenced_lock("a").acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_of_a_spin_lock_held_elsewhere<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        give_back_soon(stage.other.spin_lock("a").wait(PATIENCE).acquire().await.expect("free"));
        let acquire = stage.engine.spin_lock("a").acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn acquire_of_a_fair_lock_held_elsewhere<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        give_back_soon(stage.other.fair_lock("a").wait(PATIENCE).acquire().await.expect("free"));
        let acquire = stage.engine.fair_lock("a").acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn contended<G: Fixture>(stage: &Stage<G>, held: Lease) -> Polled {
    give_back_soon(held);
    let acquire = stage.engine.lock("a").class(TESTED).acquire();
    polled(async move { drop(acquire.await) })
}

fn acquire_that_waits_in_vain<G: Fixture>() {
    of_every_call::<G>(async |stage| {
        let held = hold(&stage.other, "a").await;
        let acquire = stage.engine.lock("a").class(TESTED).wait(SOON).acquire();
        polled(async move {
            drop(acquire.await);
            drop(held);
        })
    });
}

fn try_acquire<G: Fixture>() {
    of_every_call::<G>(async |stage| {
        let tried = stage.engine.lock("a").class(TESTED).try_acquire();
        polled(async move { drop(tried.await) })
    });
}

fn run<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lock = stage.engine.lock("a");
        polled(async move {
            let acquired = lock.clone().wait(PATIENCE).acquire().await.expect("free");
            drop(acquired);
            let work = lock.run(work);
            work.await.expect("well");
        })
    });
}

fn multi<G: Fixture>(stage: &Stage<G>) -> MultiLock {
    MultiLock::of(["c", "a", "b"].map(|name| stage.engine.lock(name)))
}

fn multi_acquire<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        give_back_soon(hold(&stage.other, "b").await);
        let acquire = multi(stage).acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn multi_release<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = multi(stage).wait(PATIENCE).acquire().await.expect("free");
        polled(async move { drop(lease.release().await) })
    });
}

/// Over the servers of the stage and two of memory, of which one answers late: two that answer at once would be a
/// majority, and no call would wait.
async fn quorum<G: Fixture>(stage: &Stage<G>) -> Quorum {
    let memory = || Faulty::new(MemoryTransport::new());
    let (prompt, late) = (memory(), memory());
    for operation in OPERATIONS {
        let _stays = late.faults().on(operation).always().inject(Fault::DelayReply(SOON));
    }
    let members = [stage.builder(), Engine::builder(prompt), Engine::builder(late)];
    let mut engines = vec![];
    for member in members {
        engines.push(member.restart_grace(Duration::ZERO).build().await.expect("an engine"));
    }
    Quorum::over(engines).expect("a quorum")
}

fn quorum_acquire<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        give_back_soon(hold(&stage.other, "a").await);
        let acquire = quorum(stage).await.lock("a").acquire();
        polled(async move { drop(acquire.await) })
    });
}

fn quorum_release<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = quorum(stage).await.lock("a").wait(PATIENCE).acquire().await.expect("free");
        polled(async move { drop(lease.release().await) })
    });
}

async fn work(lease: &Lease) -> Result<(), std::convert::Infallible> {
    tokio::task::yield_now().await;
    assert!(lease.is_held());
    Ok(())
}

fn release<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = hold(&stage.engine, "a").await;
        polled(async move { drop(lease.release().await) })
    });
}

fn renew<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = hold(&stage.engine, "a").await;
        polled(async move { drop(lease.renew(Duration::from_secs(40)).await) })
    });
}

fn holder<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let holder = stage.engine.lock("a").holder();
        polled(async move { drop(holder.await) })
    });
}

fn is_locked<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let is_locked = stage.engine.lock("a").is_locked();
        polled(async move { drop(is_locked.await) })
    });
}

fn force_release<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = hold(&stage.engine, "a").await;
        let forced = stage.engine.lock("a").force_release();
        polled(async move {
            drop(forced.await);
            drop(lease);
        })
    });
}

fn lost<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let lease = stage.engine.lock("a").ttl(SHORTEST).wait(PATIENCE).acquire().await.expect("free");
        force_release_soon(&stage.engine);
        polled(async move {
            lease.lost().await;
        })
    });
}

fn losses_next<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        let mut losses = stage.engine.losses();
        let lease = stage.engine.lock("a").ttl(SHORTEST).wait(PATIENCE).acquire().await.expect("free");
        force_release_soon(&stage.engine);
        polled(async move {
            losses.next().await;
            drop(lease);
        })
    });
}

fn shutdown<G: Fixture>() {
    let doomed_metrics = Mutex::new(Vec::new());
    at_every_poll::<G>(async |stage| {
        let doomed = stage.builder().metrics().build().await.expect("an engine");
        doomed_metrics.lock().expect("no panic").push(doomed.metrics().expect("built with metrics"));
        let leases = [hold(&doomed, "b").await, hold(&doomed, "c").await];
        polled(async move {
            doomed.shutdown(Duration::from_secs(1)).await;
            drop(leases);
        })
    });
    for metrics in doomed_metrics.into_inner().expect("no panic") {
        assert_ends_balanced_within(PATIENCE, &metrics);
        let numbers = Numbers::read(&metrics);
        assert_eq!(numbers.one("leasehold_acquire_total", &["default", "exclusive", "acquired"]), 2.0);
    }
}

fn build<G: Fixture>() {
    at_every_poll::<G>(async |stage| {
        // The lane opens at the second try.
        let faults = stage.faults.clone();
        faults.cut(Cut::Refused);
        tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            faults.heal();
        });
        let build = stage.builder().build();
        polled(async move { drop(build.await) })
    });
}

async fn hold(engine: &Engine, name: &str) -> Lease {
    engine.lock(name).wait(PATIENCE).acquire().await.expect("free")
}

fn give_back_soon(lease: Lease) {
    tokio::spawn(async move {
        tokio::time::sleep(SOON).await;
        drop(lease);
    });
}

fn force_release_soon(engine: &Engine) {
    let forced = engine.lock("a");
    tokio::spawn(async move {
        tokio::time::sleep(SOON).await;
        forced.force_release().await.expect("an answer");
    });
}

fn at_every_poll<G: Fixture>(prepare: impl AsyncFn(&Stage<G>) -> Polled) {
    block_on(async {
        drop_at_every_poll(&Stage::<G>::new().await, prepare).await;
    });
}

/// In at least one of five runs a grant comes without a caller. In a single run the machine may stop this thread until each
/// answer is there, so that no call waits for one.
fn grants_come_without_caller<G: Fixture>(prepare: impl AsyncFn(&Stage<G>) -> Polled) {
    let mut runs = (0..5).map(|_run| of_every_call::<G>(&prepare));
    assert!(runs.any(|fates| fates.without_caller > 0.0), "in none of five runs");
}

/// Of calls of the class [`TESTED`]: each dropped one was cancelled, and no other.
fn of_every_call<G: Fixture>(prepare: impl AsyncFn(&Stage<G>) -> Polled) -> Fates {
    block_on(async {
        let stage = Stage::<G>::new().await;
        let (dropped, done) = drop_at_every_poll(&stage, prepare).await;
        let numbers = Numbers::of(&stage.engine);
        let told = numbers.sum("leasehold_acquire_total", TESTED);
        let fates = Fates {
            cancelled: numbers.one("leasehold_acquire_total", &[TESTED, "exclusive", "cancelled"]),
            without_caller: numbers.one("leasehold_grants_without_caller_total", &[]),
        };
        assert_eq!((fates.cancelled, told), (f64::from(dropped), f64::from(dropped + done)));
        fates
    })
}

/// What became of calls, as the metrics tell it.
#[derive(Debug)]
struct Fates {
    cancelled: f64,
    without_caller: f64,
}

/// How many were dropped, and how many were done before.
async fn drop_at_every_poll<G: Fixture>(
    stage: &Stage<G>,
    prepare: impl AsyncFn(&Stage<G>) -> Polled,
) -> (u32, u32) {
    let (mut dropped, mut done) = (0, 0);
    for (answers, moment) in [Answers::AtOnce, Answers::Late].into_iter().flat_map(Moment::each) {
        let delays = answers.arrange(stage);
        let mut polls = 1;
        while !is_done_after(polls, moment, prepare(stage).await).await {
            (polls, dropped) = (polls + 1, dropped + 1);
        }
        done += 1;
        delays.iter().for_each(leasehold_memory::faults::Rule::remove);
        tokio::task::block_in_place(|| stage.settles());
    }
    assert!(dropped > 0, "it was always done at its first poll");
    (dropped, done)
}

/// When a future is dropped: what it waited for is on its way, or has come and was not looked at.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    Polled,
    Woken,
}

impl Moment {
    fn each(answers: Answers) -> [(Answers, Moment); 2] {
        [Moment::Polled, Moment::Woken].map(|moment| (answers, moment))
    }
}

/// Late answers leave time to drop the future between a request and its answer.
#[derive(Clone, Copy)]
enum Answers {
    AtOnce,
    Late,
}

impl Answers {
    fn arrange<G: Fixture>(self, stage: &Stage<G>) -> Vec<leasehold_memory::faults::Rule> {
        let delayed = |operation| stage.faults.on(operation).always().inject(Fault::DelayReply(SOON));
        match self {
            Answers::AtOnce => vec![],
            Answers::Late => OPERATIONS.map(delayed).into(),
        }
    }
}

/// Polls it so often at most and drops it at that moment; whether it was done by then.
async fn is_done_after(polls: u32, moment: Moment, mut future: Polled) -> bool {
    let mut left = polls;
    let polling = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false); // woken
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if left == 0 && moment == Moment::Polled => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(PATIENCE, polling).await.expect("it goes on")
}

const TESTED: &str = "tested";
const OPERATIONS: [Operation; 5] =
    [Operation::Acquire, Operation::Release, Operation::Renew, Operation::Inspect, Operation::ForceRelease];
const SOON: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_secs(1);
