//! Our contestant: one engine that holds all leases.

use std::time::{Duration, Instant};

use leasehold::{Engine, Lease, margin};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

use super::job::{BEGIN, END, Job, Told};
use crate::usage::{resident, usage};

pub(super) fn run(job: &Job) -> Told {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(hold(job))
}

async fn hold(job: &Job) -> Told {
    let engine = engine(job).await;
    // Connections, scripts and threads are there before anything is counted.
    engine.lock("warm").acquire().await.expect("free").release().await.expect("ours");
    let (empty, began) = (resident(), Instant::now());
    let leases = take(&engine, job, began).await;
    let taken_seconds = began.elapsed().as_secs_f64();
    let bytes_a_lease = (resident() - empty) / job.size.leases as f64;
    let period = job.period();
    tokio::time::sleep(period).await; // the first renewal of each is not counted
    let (renewed, before) = (engine.snapshot().renewals, usage(began));
    println!("{BEGIN}");
    tokio::time::sleep(2 * period).await;
    let (window, renewals) = (usage(began) - before, engine.snapshot().renewals - renewed);
    println!("{END}");
    let (late_ms, nearest) = lateness(&leases, job, period).await;
    let snapshot = engine.snapshot();
    let (renewals, lost) = (renewals as f64, snapshot.lost as f64);
    Told { window, renewals, lost, late_ms, nearest, bytes_a_lease, taken_seconds }
}

async fn engine(job: &Job) -> Engine {
    let builder = match job.url.as_str() {
        "memory" => Engine::builder(MemoryTransport::new()),
        url => Engine::builder(RedisTransport::from_url(url).expect("a good URL")),
    };
    let builder = builder.ttl(Duration::from_millis(job.size.ttl_ms));
    builder.build().await.expect("the servers are up")
}

/// By as many tasks as keep a server busy.
async fn take(engine: &Engine, job: &Job, began: Instant) -> Vec<Lease> {
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let (engine, names, leases) = (engine.clone(), job.names, job.size.leases);
        let (arrival, period) = (job.arrival, job.period());
        takers.spawn(async move {
            let mut taken = Vec::with_capacity(leases / TAKERS + 1);
            for number in (taker..leases).step_by(TAKERS) {
                arrival.wait(began, number, leases, period).await;
                taken.push(engine.lock(names.name(number)).acquire().await.expect("free"));
            }
            taken
        });
    }
    let mut all = Vec::with_capacity(job.size.leases);
    while let Some(taken) = takers.join_next().await {
        all.extend(taken.expect("a taker"));
    }
    all
}

/// Looks at each lease twenty times a period: how much was left of each when it was least, which is just before its
/// renewal. From that, how late 99.9 % of the renewals were at most, in milliseconds, and the nearest of all to its
/// deadline, as a part of the ttl.
async fn lateness(leases: &[Lease], job: &Job, period: Duration) -> (f64, f64) {
    let mut least = vec![Duration::MAX; leases.len()];
    for _ in 0..20 {
        for (least, lease) in least.iter_mut().zip(leases) {
            *least = lease.remaining().min(*least);
        }
        tokio::time::sleep(period / 20).await;
    }
    least.sort_unstable();
    let ttl = Duration::from_millis(job.size.ttl_ms);
    let in_time = ttl - margin(ttl) - ttl / 3;
    let late = in_time.saturating_sub(least[leases.len() / 1_000]);
    (late.as_secs_f64() * 1e3, least[0].as_secs_f64() / ttl.as_secs_f64())
}

const TAKERS: usize = 256;
