//! An engine whose calls run on a runtime of the user: what depends on that runtime then, and what does not.

#![allow(clippy::disallowed_methods)] // real time decides here

use std::{
    fs,
    future::Future,
    pin::pin,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use leasehold::{AcquireError, BuildError, Engine, LossReason, MultiLock, ReleaseError, blocking};
use leasehold_memory::MemoryTransport;
use tokio::runtime::{Builder, Runtime};

const SECOND: Duration = Duration::from_secs(1);
/// Much longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn one_worker() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn engine_on(runtime: &Runtime, server: &MemoryTransport) -> Engine {
    runtime
        .block_on(Engine::builder(server.clone()).ttl(SECOND).calls_on_current_runtime().build())
        .expect("built")
}

/// Runs it on a runtime that goes on, and fails if it does not end.
fn within_patience<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _ = sender.send(runtime.block_on(work));
    });
    ended.recv_timeout(PATIENCE).expect("it waits for a runtime that was shut down")
}

fn until(fact: impl Fn() -> bool) {
    let begin = Instant::now();
    while !fact() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("this machine is Linux").flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
}

#[test]
fn the_engine_has_a_thread_for_renewal_and_none_for_calls() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let engine = engine_on(&runtime, &server);
    runtime.block_on(async {
        let lease = engine.lock("a").acquire().await.expect("free");
        assert_eq!(server.stored_holds(), 1);
        lease.release().await.expect("ours");
    });
    let threads = threads();
    let are = |start: &str| threads.iter().filter(|name| name.starts_with(start)).count();
    // Other tests run in this process when it is not nextest that starts them.
    assert!(are("leasehold-renew") >= 1 && are("leasehold-calls") == 0, "{threads:?}");
    assert_eq!(runtime.block_on(engine.shutdown(SECOND)).unconfirmed, Vec::<String>::new());
}

#[test]
fn l4_a_blocked_runtime_with_the_calls_loses_no_lease() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let engine = engine_on(&runtime, &server);
    let lease = runtime.block_on(engine.lock("a").acquire()).expect("free");
    let (sender, blocked) = mpsc::channel();
    let blocks = runtime.spawn(async move {
        let _ = sender.send(());
        thread::sleep(3 * SECOND);
    });
    blocked.recv().expect("the worker runs");
    let begin = Instant::now();
    while !blocks.is_finished() {
        assert!(lease.is_held(), "after {:?}", begin.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    runtime.block_on(lease.release()).expect("it was ours all the time");
}

#[test]
fn l7_with_the_runtime_of_the_calls_leases_end_and_later_calls_are_refused() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let engine = engine_on(&runtime, &server);
    let [held, told] =
        ["held", "told"].map(|name| runtime.block_on(engine.lock(name).acquire()).expect("free"));
    let losses = engine.losses();
    let waits = thread::spawn(move || within_patience(async move { told.lost().await }));
    drop(runtime);
    assert_eq!(waits.join().expect("told"), LossReason::Shutdown);
    assert!(!held.is_held());
    let refused = within_patience(held.release());
    assert!(matches!(refused, Err(ReleaseError::AlreadyLost(LossReason::Shutdown))), "{refused:?}");
    within_patience(async move {
        let mut losses = losses;
        while losses.next().await.is_some() {}
    });
    let lock = engine.lock("held");
    let refused = within_patience(lock.acquire());
    assert!(matches!(refused, Err(AcquireError::ShuttingDown)), "{refused:?}");
    let refused = within_patience(async move { lock.try_acquire().await.map(drop) });
    assert!(matches!(refused, Err(AcquireError::ShuttingDown)), "{refused:?}");
    assert_eq!(server.stored_holds(), 2, "nothing was released: the ttl ends the locks");
    let again = engine.clone();
    within_patience(async move { again.shutdown(PATIENCE).await });
    assert!(!engine.snapshot().connected);
}

#[test]
fn l7_with_the_runtime_of_the_calls_every_caller_that_waits_is_answered() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let engine = engine_on(&runtime, &server);
    let other = runtime.block_on(Engine::builder(server.clone()).build()).expect("built");
    let callers = one_worker();
    let held = callers.block_on(async {
        other.semaphore("semaphore").try_set(1).await.expect("set");
        other.latch("latch").try_set(1).await.expect("set");
        let mut held = vec![other.fair_lock("fair").acquire().await.expect("free")];
        for name in ["lock", "multi"] {
            held.push(other.lock(name).acquire().await.expect("free"));
        }
        held
    });
    callers.block_on(other.semaphore("semaphore").acquire(1)).expect("free");
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let engine = engine.clone();
        let members = [engine.lock("free"), engine.lock("multi")];
        let multi = MultiLock::of(members);
        let (lock, fair, semaphore, latch) = (
            engine.lock("lock"),
            engine.fair_lock("fair"),
            engine.semaphore("semaphore"),
            engine.latch("latch"),
        );
        waiting.push(callers.spawn(async move { drop(lock.acquire().await.expect_err("it is held")) }));
        waiting.push(callers.spawn(async move { drop(fair.acquire().await.expect_err("it is held")) }));
        waiting
            .push(callers.spawn(async move { drop(semaphore.acquire(1).await.expect_err("none is free")) }));
        waiting.push(callers.spawn(async move { drop(latch.opened().await.expect_err("it is not zero")) }));
        waiting.push(callers.spawn(async move { drop(multi.acquire().await.expect_err("one is held")) }));
        waiting.push(callers.spawn(async move { drop(engine.lock("lock").describe().await) }));
    }
    until(|| engine.snapshot().waiting >= 32); // of the locks, the semaphore and the latch
    drop(runtime);
    within_patience(async move {
        for caller in waiting {
            caller.await.expect("answered with an error");
        }
    });
    drop((held, other, callers));
}

#[test]
fn l7_with_the_runtime_of_the_calls_every_call_under_way_ends() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let engine = engine_on(&runtime, &server);
    let callers = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let working: Vec<_> = (0..64)
        .map(|number| {
            let lock = engine.lock(format!("{}", number % 32));
            callers.spawn(async move {
                while let Ok(lease) = lock.acquire().await {
                    if number % 3 > 0 {
                        let _ = lease.release().await;
                    }
                }
            })
        })
        .collect();
    until(|| engine.snapshot().granted > 1_000);
    runtime.shutdown_background();
    within_patience(async move {
        for caller in working {
            caller.await.expect("ended");
        }
    });
    assert_eq!(engine.snapshot().held, 0);
}

#[test]
fn l6_nothing_on_the_runtime_of_the_calls_outlives_the_engine() {
    let (runtime, server) = (one_worker(), MemoryTransport::new());
    let alive = || runtime.handle().metrics().num_alive_tasks();
    let before = alive();
    let engine = engine_on(&runtime, &server);
    runtime.block_on(async {
        drop(engine.lock("a").acquire().await.expect("free")); // released in the background
        drop(engine);
    });
    until(|| alive() == before && !threads().iter().any(|name| name.starts_with("leasehold-renew")));
    assert_eq!(server.stored_holds(), 0);
}

#[test]
fn a_shutdown_that_the_end_of_the_runtime_cuts_off_names_every_lock() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let engine = engine_on(&runtime, &MemoryTransport::new());
    let held = ["b", "a"].map(|name| runtime.block_on(engine.lock(name).acquire()).expect("free"));
    let report = within_patience(async move {
        let mut shutdown = pin!(engine.shutdown(PATIENCE));
        tokio::select! {
            biased;
            report = &mut shutdown => panic!("its runtime does not run: {report:?}"),
            () = std::future::ready(()) => {}
        }
        runtime.shutdown_background();
        shutdown.await
    });
    assert_eq!((report.released, report.unconfirmed), (0, vec!["a".to_owned(), "b".to_owned()]));
    assert!(held.iter().all(|lease| !lease.is_held()));
}

#[test]
fn a_task_that_drops_a_lease_and_computes_on_keeps_the_next_caller_of_the_engine_waiting_for_nothing() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let engine = engine_on(&runtime, &MemoryTransport::new());
    let lock = engine.lock("a").ttl(PATIENCE);
    let held = runtime.block_on(lock.acquire()).expect("free");
    let waits = lock.clone();
    let next = runtime.spawn(async move {
        let lease = waits.acquire().await.expect("handed off");
        (Instant::now(), lease)
    });
    until(|| engine.snapshot().waiting == 1);
    let computes = runtime.spawn(async move {
        drop(held);
        thread::sleep(3 * SECOND);
        Instant::now()
    });
    let (granted, lease) = within_patience(next).expect("no panic");
    assert!(granted < within_patience(computes).expect("no panic"), "granted after the computation");
    drop(lease);
}

#[test]
fn without_a_runtime_or_with_paused_time_or_for_blocking_calls_it_is_refused() {
    let builder = || Engine::builder(MemoryTransport::new()).calls_on_current_runtime();
    assert!(matches!(builder().connect_later(), Err(BuildError::Threads(_))));
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let refused = paused.block_on(builder().build());
    let Err(BuildError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.remedy.contains("on_current_runtime()"), "{why}");
    let without_timers = Builder::new_current_thread().build().expect("a runtime");
    let refused = without_timers.block_on(builder().build());
    assert!(matches!(&refused, Err(BuildError::Threads(why)) if why.contains("enable_all")), "{refused:?}");
    let runtime = one_worker();
    let not_polled = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let inside = not_polled.enter();
    let refused = blocking::Engine::build(builder());
    drop(inside);
    assert!(matches!(&refused, Err(BuildError::Invalid(why)) if why.field == "builder"), "{refused:?}");
    let engine = runtime.block_on(builder().build()).expect("built");
    let refused = blocking::Engine::new(engine).expect_err("a blocked thread could wait for itself");
    assert!(refused.remedy.contains("without on_current_runtime and calls_on_current_runtime"), "{refused}");
}
