//! A lock that two engines of ours and threads of a JVM want all the time: how many grants each has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::Engine;
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    deployment::{Topology, two_workers},
    length::is_long,
    stall::unless_stalled,
};
use tokio::task::JoinSet;

use crate::fixture::Fixture;

const TTL: Duration = Duration::from_secs(30);

/// Half of its fair share is a sixth; what is asked for here leaves room for a busy machine. When our processes did not
/// wait for slower listeners, Java had 1.5 to 10 % of the grants.
#[test]
fn l5_java_gets_a_tenth_of_the_grants_of_a_hot_lock_beside_two_engines() {
    unless_stalled(|| {
        for hold in holds() {
            let shares = two_workers().block_on(contend(hold));
            let longest = shares.javas_longest_wait;
            println!("holds of {hold:?}: {shares:?}, the longest wait of Java {longest:?}");
            let all = shares.java + shares.ours.iter().sum::<u64>();
            assert!(shares.java * 10 >= all, "{shares:?}");
            assert!(shares.ours.iter().all(|grants| grants * 6 >= all), "{shares:?}");
        }
    });
}

/// Grants of each process.
#[derive(Debug)]
struct Shares {
    java: u64,
    ours: Vec<u64>,
    /// The longest wait of a thread of Java's.
    javas_longest_wait: Duration,
}

async fn contend(hold: Duration) -> Shares {
    let fixture = Fixture::new(Topology::Single, TTL).await;
    let config = RedisConfig::from_url(&fixture.servers.url()).expect("a URL");
    let other = Engine::builder(RedisTransport::new(config)).ttl(TTL).build().await.expect("an engine");
    let java =
        |thread| format!("contend t{thread} {} {} {}", fixture.name, run().as_millis(), hold.as_micros());
    let given: Vec<_> = (0..CALLERS).map(|thread| fixture.java.give(&java(thread))).collect();
    let (mut ours, mut tasks) = (Vec::new(), JoinSet::new());
    for engine in [fixture.engine.clone(), other] {
        let grants = Arc::<AtomicU64>::default();
        ours.push(grants.clone());
        for _ in 0..CALLERS {
            tasks.spawn(hold_again_and_again(engine.clone(), fixture.name.clone(), hold, grants.clone()));
        }
    }
    tasks.join_all().await;
    let (mut java, mut longest) = (0, 0);
    for given in given {
        let done = fixture.java.answer(given, run() + DONE_BY).expect("Java's grants");
        let (grants, waits) = done.split_once(' ').expect("grants and waits");
        java += grants.parse::<u64>().expect("a number");
        longest = waits.split(',').filter_map(|wait| wait.parse().ok()).fold(longest, u64::max);
    }
    let ours = ours.iter().map(|grants| grants.load(Ordering::Relaxed)).collect();
    Shares { java, ours, javas_longest_wait: Duration::from_micros(longest) }
}

async fn hold_again_and_again(engine: Engine, name: String, hold: Duration, grants: Arc<AtomicU64>) {
    let until = Instant::now() + run();
    while Instant::now() < until {
        let lease = engine.lock(&name).acquire().await.expect("a turn");
        tokio::time::sleep(hold).await;
        grants.fetch_add(1, Ordering::Relaxed);
        lease.release().await.expect("ours to the end");
    }
}

fn holds() -> Vec<Duration> {
    let millis: &[u64] = if is_long() { &[1, 2, 5, 10] } else { &[1, 2] };
    millis.iter().copied().map(Duration::from_millis).collect()
}

fn run() -> Duration {
    Duration::from_secs(if is_long() { 20 } else { 5 })
}

const CALLERS: usize = 8;
const DONE_BY: Duration = Duration::from_secs(60);
