//! This machine has no time: other processes keep all cores busy, and the application's own threads are blocked.

use std::{
    process::{Child, Command},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::Engine;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;
use tokio::runtime::Runtime;

use super::{
    rows::Rows,
    size::{FaultsSize, WORKERS, hold, runtime},
    watch::Watch,
};
use crate::table::Table;

pub(super) fn measure(table: &mut Table, size: FaultsSize) {
    let (runtime, watch) = (runtime(), Watch::default());
    let server = RedisServer::start().expect("a redis-server");
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let building = Engine::builder(transport).ttl(size.ttl).recorder(watch.clone()).build();
    let engine = runtime.block_on(building).expect("the server is up");
    let names = (0..size.leases).map(|number| format!("busy:{number:027}")).collect();
    let leases = runtime.block_on(hold(&engine, names));
    watch.take();
    let spinners = Spinners::start();
    block(&runtime, 2 * size.ttl);
    let (count, held) = (spinners.0.len(), leases.iter().filter(|lease| lease.is_held()).count());
    drop(spinners);
    let seen = watch.take().into_values().next().expect("each was renewed");
    let what = format!("{} leases, {count} spinning processes, workers blocked for 2 ttls", size.leases);
    let mut rows = Rows { table, target: "L4", what };
    rows.none("lost", seen.lost() + (leases.len() - held), "leases");
    rows.late("late, of their renewals", seen.late(), "renewals", size);
    rows.add("renewals", seen.renewed() as f64, "renewals");
    rows.add("99.9 % of the renewals left at least", seen.left_by_most(), "of ttl");
    rows.add("nearest to the deadline", seen.nearest(), "of ttl");
    assert!(seen.renewed() >= 4 * size.leases, "each in every third, less two for a slow machine");
    let report = runtime.block_on(engine.shutdown(2 * size.ttl));
    assert!(report.unconfirmed.is_empty(), "{} are not confirmed", report.unconfirmed.len());
}

/// All workers of the application's runtime at once, so that nothing else runs on it meanwhile.
fn block(runtime: &Runtime, time: Duration) {
    let (all, ran) = (Arc::new(Barrier::new(WORKERS + 1)), Arc::<AtomicUsize>::default());
    let blocked = (0..WORKERS).map(|_| {
        let all = all.clone();
        runtime.spawn(async move {
            all.wait();
            thread::sleep(time);
        })
    });
    let blocked: Vec<_> = blocked.collect();
    all.wait();
    let other = runtime.spawn({
        let ran = ran.clone();
        async move { ran.fetch_add(1, Ordering::SeqCst) }
    });
    thread::sleep(time.mul_f64(0.9));
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the workers are not blocked");
    runtime.block_on(async {
        for blocked in blocked {
            blocked.await.expect("no panic");
        }
        other.await.expect("no panic");
    });
}

/// Two for each core, at the priority of everybody. They end with this.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let program = std::env::current_exe().expect("a program knows its path");
        let start = |_| Command::new(&program).arg("--spin").spawn().expect("it can be started again");
        Self((0..2 * cores).map(start).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// What the process does under `--spin`: nothing, as fast as it can, until it is ended; alone for five minutes at most.
pub(crate) fn spin() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(300) {
        std::hint::spin_loop();
    }
}
