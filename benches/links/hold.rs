//! The process at the far end of the link: one engine that takes the leases over it and holds them.

use std::{
    process::{Command, Stdio},
    str::FromStr,
    time::{Duration, Instant},
};

use leasehold::{Engine, Lease};
use leasehold_redis::RedisTransport;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{
    renewals::Renewals,
    size::{LinksSize, runtime},
};
use crate::usage::{Usage, usage};

/// What it tells of itself. All but `taken_seconds` is of the window, which begins when it holds all leases.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) taken_seconds: f64,
    pub(super) window: Usage,
    pub(super) held: usize,
    /// From the first lease on.
    pub(super) lost: u64,
    /// Confirmed.
    pub(super) renewals: u64,
    /// Not confirmed in time.
    pub(super) renewals_failed: u64,
    pub(super) batches: usize,
    /// Leases in these batches.
    pub(super) members: usize,
    /// The smallest share of the ttl that a confirmed renewal left to the deadline.
    pub(super) nearest: f64,
}

impl Told {
    pub(super) fn renewals_a_second(&self) -> f64 {
        self.renewals as f64 / self.window.seconds
    }

    pub(super) fn batches_a_second(&self) -> f64 {
        self.batches as f64 / self.window.seconds
    }

    pub(super) fn leases_a_batch(&self) -> f64 {
        self.members as f64 / self.batches as f64
    }

    pub(super) fn client_percent(&self) -> f64 {
        100.0 * self.window.cpu_seconds / self.window.seconds
    }
}

/// Runs it.
pub(super) fn measure(url: &str, size: LinksSize) -> Told {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its path"));
    let numbers = [size.leases as u128, size.ttl.as_millis(), size.window.as_millis()];
    command.arg("--hold-over-link").arg(url).args(numbers.map(|number| number.to_string()));
    let output = command.stderr(Stdio::inherit()).output().expect("this program can be started again");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("figures")
}

/// What the process does under `--hold-over-link URL LEASES TTL_MS WINDOW_MS`.
pub(crate) fn run(arguments: &[String]) {
    let [url, leases, ttl, window] = arguments else { panic!("four words, not {arguments:?}") };
    let (ttl, window) = (Duration::from_millis(number(ttl)), Duration::from_millis(number(window)));
    let size = LinksSize { leases: number(leases), ttl, window, round_trips: &[] };
    let told = runtime().block_on(hold(url, size));
    println!("{}", serde_json::to_string(&told).expect("figures"));
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

async fn hold(url: &str, size: LinksSize) -> Told {
    let recorder = Renewals::default();
    let transport = RedisTransport::from_url(url).expect("a good URL");
    let building = Engine::builder(transport).ttl(size.ttl).recorder(recorder.clone()).build();
    let engine = building.await.expect("the server is up");
    let began = Instant::now();
    let leases = take(&engine, size, began).await;
    let (before, used) = (engine.snapshot(), usage(began));
    recorder.take();
    tokio::time::sleep(size.window).await;
    let (window, seen, after) = (usage(began) - used, recorder.take(), engine.snapshot());
    assert_eq!(after.events_dropped, 0, "the recorder was too slow");
    Told {
        taken_seconds: used.seconds,
        window,
        held: leases.iter().filter(|lease| lease.is_held()).count(),
        lost: after.lost,
        renewals: after.renewals - before.renewals,
        renewals_failed: after.renewals_failed - before.renewals_failed,
        batches: seen.batches,
        members: seen.members,
        nearest: seen.nearest,
    }
}

/// Takes the leases evenly over a third of the ttl, by as many tasks as it takes to have enough unanswered.
async fn take(engine: &Engine, size: LinksSize, began: Instant) -> Vec<Lease> {
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let engine = engine.clone();
        takers.spawn(async move {
            let mut taken = Vec::with_capacity(size.leases / TAKERS + 1);
            for number in (taker..size.leases).step_by(TAKERS) {
                let at = began + (size.ttl / 3).mul_f64(number as f64 / size.leases as f64);
                tokio::time::sleep_until(at.into()).await;
                taken.push(engine.lock(format!("link:{number:027}")).acquire().await.expect("free"));
            }
            taken
        });
    }
    takers.join_all().await.into_iter().flatten().collect()
}

/// At a round trip of 100 ms 1,000 acquires are unanswered at a time; twice that keeps up.
const TAKERS: usize = 2_000;
