//! The baseline, as lock clients commonly do it: one task a lease, which sleeps a third of the ttl and sends one script
//! for its own key, by the same client library that the transport uses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fred::prelude::*;

use super::job::{BEGIN, END, Job, Told};
use crate::usage::{resident, usage};

pub(super) fn run(job: &Job) -> Told {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(hold(job))
}

async fn hold(job: &Job) -> Told {
    let client = client(job).await;
    let (renew, take) = (load(&client, RENEW).await, load(&client, TAKE).await);
    let (empty, began) = (resident(), Instant::now());
    let (renewed, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut takers = tokio::task::JoinSet::new();
    for taker in 0..TAKERS {
        let (client, renew, take, job) = (client.clone(), renew.clone(), take.clone(), job.clone());
        let (renewed, lost) = (renewed.clone(), lost.clone());
        takers.spawn(async move {
            for number in (taker..job.size.leases).step_by(TAKERS) {
                job.arrival.wait(began, number, job.size.leases, job.period()).await;
                let lease =
                    One { client: client.clone(), key: job.names.name(number), ttl_ms: job.size.ttl_ms };
                assert!(lease.send(&take).await, "free");
                tokio::spawn(lease.keep(renew.clone(), renewed.clone(), lost.clone()));
            }
        });
    }
    takers.join_all().await;
    let taken_seconds = began.elapsed().as_secs_f64();
    let bytes_a_lease = (resident() - empty) / job.size.leases as f64;
    let period = job.period();
    tokio::time::sleep(period).await;
    let (before, before_renewed) = (usage(began), renewed.load(Ordering::Relaxed));
    println!("{BEGIN}");
    tokio::time::sleep(2 * period).await;
    let window = usage(began) - before;
    println!("{END}");
    let renewals = (renewed.load(Ordering::Relaxed) - before_renewed) as f64;
    let lost = lost.load(Ordering::Relaxed) as f64;
    Told { window, renewals, lost, bytes_a_lease, taken_seconds, ..Told::default() }
}

async fn client(job: &Job) -> Client {
    let url = job.url.replace("redis+cluster", "redis-cluster");
    let config = Config::from_url(&url).expect("a good URL");
    let client = Client::new(config, None, None, None);
    client.init().await.expect("the servers are up");
    client
}

async fn load(client: &Client, script: &str) -> String {
    match client.is_clustered() {
        true => client.script_load_cluster(script).await.expect("a digest"),
        false => client.script_load(script).await.expect("a digest"),
    }
}

struct One {
    client: Client,
    key: String,
    ttl_ms: u64,
}

impl One {
    async fn send(&self, script: &str) -> bool {
        let arguments = vec![self.ttl_ms.to_string(), OWNER.to_owned()];
        self.client.evalsha::<i64, _, _, _>(script, self.key.as_str(), arguments).await == Ok(1)
    }

    async fn keep(self, renew: String, renewed: Arc<AtomicU64>, lost: Arc<AtomicU64>) {
        loop {
            tokio::time::sleep(Duration::from_millis(self.ttl_ms / 3)).await;
            let count = if self.send(&renew).await { &renewed } else { &lost };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const TAKE: &str = "redis.call('hset', KEYS[1], ARGV[2], 1) return redis.call('pexpire', KEYS[1], ARGV[1])";
const RENEW: &str = "if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then return redis.call('pexpire', KEYS[1], ARGV[1]) end return 0";
const OWNER: &str = "0f2f6c0c-8a5e-4f5e-9d1c-3a1b2c3d4e5f:1";
const TAKERS: usize = 256;
