//! Connections that follow their callers, on real servers: the runtime of the callers is blocked, it ends, it has no I/O driver.

use std::{sync::mpsc, time::Duration};

use leasehold::Engine;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{deployment::Topology, redis_server::RedisServer};
use tokio::runtime::{Builder, Runtime};

use crate::fixture::Fixture;

leasehold_tests::on_every_topology!(
    callers_of_another_runtime_do_not_wait_for_a_blocked_one,
    the_end_of_a_runtime_that_called_ends_no_lease,
    a_runtime_without_an_io_driver_has_its_locks_all_the_same,
);

async fn callers_of_another_runtime_do_not_wait_for_a_blocked_one(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    let runtime = runtime();
    for _ in 0..3 {
        runtime.spawn(pairs(engine.clone())).await.expect("all are granted");
        let (begins, begun) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        let blocked = runtime.spawn(async move {
            begins.send(()).expect("the test waits");
            end.recv() // user code that blocks the only worker
        });
        begun.recv().expect("it runs");
        pairs(engine.clone()).await;
        assert!(!blocked.is_finished(), "the worker was blocked all the time");
        drop(ends);
        assert!(blocked.await.expect("no panic").is_err());
    }
    runtime.shutdown_background();
}

async fn the_end_of_a_runtime_that_called_ends_no_lease(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    for _ in 0..5 {
        let (runtime, held) = (runtime(), engine.lock("held"));
        let lease =
            runtime.spawn(async move { held.acquire().await.expect("free") }).await.expect("no panic");
        let busy = runtime.spawn(pairs(engine.clone()));
        pairs(engine.clone()).await;
        runtime.shutdown_background();
        drop(busy.await); // with its runtime, or all are granted
        assert!(lease.is_held());
        pairs(engine.clone()).await;
        lease.release().await.expect("ours");
    }
}

async fn a_runtime_without_an_io_driver_has_its_locks_all_the_same(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    runtime.spawn(pairs(engine.clone())).await.expect("all are granted");
    pairs(engine).await;
    runtime.shutdown_background();
}

// The runtime stands still after the refusal.
#[tokio::test]
async fn a_connection_that_was_refused_is_replaced_though_the_callers_runtime_stands_still() {
    let server = RedisServer::start().expect("a server");
    let mut admin = server.client().expect("a connection");
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let engine = Engine::builder(transport).build().await.expect("an engine");
    let (callers, kept) =
        (engine.clone(), Builder::new_current_thread().enable_all().build().expect("a runtime"));
    let caller = std::thread::spawn(move || {
        kept.block_on(pairs(callers.clone()));
        admin.command(&["REPLICAOF", "127.0.0.1", "1"]).expect("a replica");
        let refused = kept.block_on(callers.lock("a").wait(Duration::ZERO).acquire());
        assert!(refused.is_err(), "a replica grants nothing");
        admin.command(&["REPLICAOF", "NO", "ONE"]).expect("a master");
        kept
    });
    let kept = tokio::task::spawn_blocking(|| caller.join()).await.expect("no panic").expect("no panic");
    pairs(engine).await;
    kept.shutdown_background();
}

/// More calls than a connection needs to follow, on each node of a cluster.
async fn pairs(engine: Engine) {
    for pair in 0..PAIRS {
        engine
            .lock(format!("{}", pair % KEYS))
            .acquire()
            .await
            .expect("granted")
            .release()
            .await
            .expect("ours");
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

const PAIRS: usize = 300;
const KEYS: usize = 20;
