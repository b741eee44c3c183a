//! The time from the start of a process to its first lock, beside a process that prints a line and does nothing else.

use std::{
    fmt,
    time::{Duration, Instant},
};

use leasehold::Engine;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;
use rslock::LockManager;

use crate::{
    orders::Ordered, processors::Processors, rounds::Spread, runtime::one_worker, size::Size, table::Table,
};

/// What the process does before it prints its line.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It builds an engine as shipped, and acquires a lock.
    Shipped,
    /// The same, with calls on the callers' runtime.
    OnCallers,
    /// It acquires a lock of rslock.
    Peer,
    Nothing,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Shipped, Self::OnCallers, Self::Peer, Self::Nothing];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shipped => "redis",
            Self::OnCallers => "redis, calls on the callers' runtime",
            Self::Peer => "rslock",
            Self::Nothing => "nothing",
        })
    }
}

pub(crate) fn measure(table: &mut Table, size: Size) {
    for processors in Processors::BOTH {
        let _awake = processors.arrange();
        measure_with(table, size, processors);
    }
}

fn measure_with(table: &mut Table, size: Size, processors: Processors) {
    let server = RedisServer::start().expect("a redis-server");
    let url = server.url();
    let rounds: Vec<_> =
        (0..4 * size.rounds).map(|_| Kind::ALL.map(|kind| millis_to_first(kind, &url))).collect();
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let millis = Spread::of(rounds.iter().map(|round| round[place]).collect());
        table.add(
            "first",
            format!("start of a process to its first lock, {processors}, {kind}"),
            millis,
            "ms",
        );
    }
}

fn millis_to_first(kind: Kind, url: &str) -> f64 {
    let started = Instant::now();
    let mut process = Ordered::start_this_program(&["--first-lock", &format!("{kind:?}"), url]);
    assert_eq!(process.line(), HELD);
    started.elapsed().as_secs_f64() * 1e3
}

/// What the process does under `--first-lock KIND URL`.
pub(crate) fn run_process(arguments: &[String]) {
    let [kind, url] = arguments else { panic!("two words, not {arguments:?}") };
    one_worker().block_on(async {
        match kind.as_str() {
            "Nothing" => println!("{HELD}"),
            "Peer" => acquire_of_peer(url).await,
            kind => acquire(url, kind == "OnCallers").await,
        }
    });
}

async fn acquire(url: &str, calls_on_callers: bool) {
    let builder = Engine::builder(RedisTransport::from_url(url).expect("a good URL"));
    let builder = if calls_on_callers { builder.calls_on_current_runtime() } else { builder };
    let engine = builder.build().await.expect("the server is up");
    let lease = engine.lock(name()).acquire().await.expect("free");
    println!("{HELD}");
    lease.release().await.expect("ours");
}

async fn acquire_of_peer(url: &str) {
    let peer = LockManager::new(vec![url.to_owned()]);
    let lock = peer.lock(name().as_str(), Duration::from_secs(30)).await.expect("free");
    println!("{HELD}");
    peer.unlock(&lock).await;
}

// A process that has said its line is killed, perhaps with its lock.
fn name() -> String {
    format!("first of {}", std::process::id())
}

const HELD: &str = "held";
