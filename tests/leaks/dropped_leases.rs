//! Leases that are dropped in odd places: no panic, and released or expired (promise L7).

use std::{panic, thread};

use crate::fixture::{Fixture, Memory, Stage, block_on, on_every_ground};

on_every_ground!(
    l7_in_a_thread_without_a_runtime,
    l7_in_a_panic,
    l7_in_a_panic_of_a_task,
    l7_during_and_after_the_end_of_the_runtime_that_acquired_it,
    l7_as_the_last_handle_of_its_engine,
);

fn l7_in_a_thread_without_a_runtime<G: Fixture>() {
    block_on(async {
        let stage = Stage::<G>::new().await;
        let lease = stage.engine.lock("a").acquire().await.unwrap();
        thread::spawn(move || drop(lease)).join().expect("no panic");
        tokio::task::block_in_place(|| stage.settles());
    });
}

fn l7_in_a_panic<G: Fixture>() {
    block_on(async {
        let stage = Stage::<G>::new().await;
        let lease = stage.engine.lock("a").acquire().await.unwrap();
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _lease = lease;
            panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        tokio::task::block_in_place(|| stage.settles());
    });
}

fn l7_in_a_panic_of_a_task<G: Fixture>() {
    block_on(async {
        let stage = Stage::<G>::new().await;
        let acquire = stage.engine.lock("a").acquire();
        let task = tokio::spawn(async move {
            let _lease = acquire.await.unwrap();
            panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(task.await.unwrap_err().is_panic());
        tokio::task::block_in_place(|| stage.settles());
    });
}

fn l7_during_and_after_the_end_of_the_runtime_that_acquired_it<G: Fixture>() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stage = runtime.block_on(Stage::<G>::new());
    let after = runtime.block_on(stage.engine.lock("after").acquire()).unwrap();
    let during = runtime.block_on(stage.engine.lock("during").acquire()).unwrap();
    runtime.spawn(async move {
        let _held = during;
        std::future::pending::<()>().await;
    });
    // Callers are queued too when their runtime ends.
    runtime.spawn(stage.engine.lock("after").acquire());
    drop(runtime);
    assert!(after.is_held());
    drop(after);
    stage.settles();
}

fn l7_as_the_last_handle_of_its_engine<G: Fixture>() {
    block_on(async {
        let Stage { fixture, engine, other, .. } = Stage::<G>::new().await;
        let lease = engine.lock("a").acquire().await.unwrap();
        drop((engine, other));
        thread::spawn(move || drop(lease)).join().expect("no panic");
        let gone = tokio::task::block_in_place(|| {
            leasehold_tests::harness::polling::holds_within(crate::fixture::PATIENCE, || {
                fixture.left().is_empty()
            })
        });
        assert!(gone, "{:?}", fixture.left());
    });
}

#[test]
fn l7_on_the_callers_runtime_a_drop_after_its_end_leaves_the_lock_to_its_ttl() {
    let memory = Memory::start().transport();
    let build = || leasehold::Engine::builder(memory.clone()).on_current_runtime().build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (engine, lease) = runtime.block_on(async {
        let engine = build().await.unwrap();
        let lease = engine.lock("a").ttl(std::time::Duration::from_secs(1)).acquire().await.unwrap();
        (engine, lease)
    });
    drop(runtime);
    drop(lease);
    drop(engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let next = runtime.block_on(async { build().await.unwrap().lock("a").acquire().await });
    assert!(next.unwrap().is_held());
}
