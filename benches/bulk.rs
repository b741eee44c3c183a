//! Many locks in one call: how long until all are held, until all are released and confirmed, and what a single caller
//! notices of it meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineConfig, Lease};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;
use tokio::runtime::Runtime;

use crate::{rounds::Spread, runtime::one_worker, table::Table};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    rounds: usize,
    /// Names of a list.
    names: usize,
}

/// About four minutes.
pub(crate) const LARGE: Size = Size { rounds: 3, names: 100_000 };
pub(crate) const SMALL: Size = Size { rounds: 1, names: 1_000 };

/// How many are unanswered at a time; the default is among them.
const IN_FLIGHT: [usize; 4] = [32, 64, 256, 1_024];

pub(crate) fn measure(table: &mut Table, size: Size) {
    let runtime = one_worker();
    let server = RedisServer::start().expect("a redis-server");
    let memory: Vec<Round> =
        (0..size.rounds).map(|_| runtime.block_on(round(on_memory(256), size.names))).collect();
    rows(table, "memory", size, &memory);
    // In turn, so that what else the machine does meets them all.
    let mut rounds: Vec<Vec<Round>> = IN_FLIGHT.iter().map(|_| Vec::new()).collect();
    for _ in 0..size.rounds {
        for (in_flight, rounds) in IN_FLIGHT.iter().zip(&mut rounds) {
            rounds.push(runtime.block_on(round(on_redis(&server, *in_flight), size.names)));
        }
    }
    for (in_flight, rounds) in IN_FLIGHT.iter().zip(&rounds) {
        rows(table, &format!("redis, {in_flight} in flight"), size, rounds);
    }
    single(table, size, &server, &runtime);
}

struct Round {
    acquired: f64,
    released: f64,
    shut_down: f64,
}

fn rows(table: &mut Table, what: &str, size: Size, rounds: &[Round]) {
    let spread = |figure: fn(&Round) -> f64| Spread::of(rounds.iter().map(figure).collect());
    let names = size.names;
    table.add("bulk", format!("{what}: acquire_all, {names} names"), spread(|round| round.acquired), "s");
    table.add("bulk", format!("{what}: release_all, all confirmed"), spread(|round| round.released), "s");
    table.add("bulk", format!("{what}: shutdown, all confirmed"), spread(|round| round.shut_down), "s");
}

fn config(bulk_in_flight_max: usize) -> EngineConfig {
    let mut config = EngineConfig::default();
    config.bulk_in_flight_max = bulk_in_flight_max;
    config
}

async fn on_memory(in_flight: usize) -> Engine {
    let builder = Engine::builder(MemoryTransport::new()).config(config(in_flight));
    builder.build().await.expect("memory is always there")
}

async fn on_redis(server: &RedisServer, in_flight: usize) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    Engine::builder(transport).config(config(in_flight)).build().await.expect("the server is up")
}

async fn round(engine: impl Future<Output = Engine>, names: usize) -> Round {
    let engine = engine.await;
    let (leases, acquired) = timed(hold(&engine, names)).await;
    let (answers, released) = timed(engine.release_all(leases)).await;
    assert!(answers.iter().all(Result::is_ok), "not all were confirmed");
    let leases = hold(&engine, names).await;
    let (report, shut_down) = timed(engine.shutdown(Duration::from_secs(60))).await;
    assert_eq!((report.released, report.unconfirmed.len(), leases.len()), (names, 0, names));
    Round { acquired, released, shut_down }
}

async fn hold(engine: &Engine, names: usize) -> Vec<Lease> {
    let names: Vec<String> = (0..names).map(|number| format!("{number:032}")).collect();
    let outcomes = engine.acquire_all(names).await;
    outcomes.into_iter().collect::<Result<_, _>>().expect("nobody else wants them")
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let begin = Instant::now();
    (work.await, begin.elapsed().as_secs_f64())
}

/// Pairs of one other caller while a list is acquired: the median of each number in flight.
fn single(table: &mut Table, size: Size, server: &RedisServer, runtime: &Runtime) {
    for in_flight in IN_FLIGHT {
        let (mut p50s, mut p99s) = (Vec::new(), Vec::new());
        for _ in 0..size.rounds {
            let mut millis = runtime.block_on(single_beside(server, in_flight, size.names));
            millis.sort_by(f64::total_cmp);
            p50s.push(millis[millis.len() / 2]);
            p99s.push(millis[(millis.len() * 99 / 100).min(millis.len() - 1)]);
        }
        let what = format!("redis, {in_flight} in flight: a single caller's pair meanwhile");
        table.add("bulk", format!("{what}, p50"), Spread::of(p50s), "ms");
        table.add("bulk", format!("{what}, p99"), Spread::of(p99s), "ms");
    }
}

// From the start of the list until most of it has been told: at its end nobody is in anybody's way.
async fn single_beside(server: &RedisServer, in_flight: usize, names: usize) -> Vec<f64> {
    let engine = on_redis(server, in_flight).await;
    let (lock, told) = (engine.lock("single"), Arc::new(AtomicUsize::new(0)));
    let mut acquiring = engine.acquire_all((0..names).map(|number| format!("{number:032}"))).start();
    let list = tokio::spawn({
        let told = told.clone();
        async move {
            let mut leases = Vec::new();
            while let Some((_, outcome)) = acquiring.next().await {
                leases.push(outcome.expect("nobody else wants it"));
                told.fetch_add(1, Ordering::Relaxed);
            }
            leases
        }
    });
    let mut millis = Vec::new();
    while told.load(Ordering::Relaxed) * 10 < names * 9 || millis.is_empty() {
        let pair =
            async { lock.acquire().await.expect("nobody else wants it").release().await.expect("ours") };
        millis.push(timed(pair).await.1 * 1e3);
    }
    let leases = list.await.expect("no panic");
    engine.shutdown(Duration::from_secs(60)).await;
    drop(leases);
    millis
}
