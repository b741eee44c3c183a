//! One lock that many callers want all the time: grants a second, their shares and their waits, of callers of one engine
//! and of four, with and without hand-offs, beside the plainest peer and beside one client that asks and releases in turn.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineConfig};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::redis_server::RedisServer;
use rslock::LockManager;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{processors::Processors, raw, rounds::Spread, runtime::one_worker, size::Size, table::Table};

const CALLERS: usize = 64;
const ENGINES: usize = 4;
const WAITERS: usize = 100;
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];
const WAITED_FOR: &str = "waited for";
const TTL: Duration = Duration::from_secs(30);

pub(crate) fn measure(table: &mut Table, size: Size) {
    for processors in Processors::BOTH {
        let _awake = processors.arrange();
        measure_with(table, size, processors);
    }
}

fn measure_with(table: &mut Table, size: Size, processors: Processors) {
    let runtime = one_worker();
    let server = RedisServer::start().expect("a redis-server");
    let shipped_max = EngineConfig::default().hand_offs_max;
    let shipped: Vec<_> = (0..ENGINES).map(|_| runtime.block_on(engine(&server, shipped_max))).collect();
    let without: Vec<_> = (0..ENGINES).map(|_| runtime.block_on(engine(&server, 0))).collect();
    let peers: Vec<_> = (0..ENGINES).map(|_| LockManager::new(vec![server.url()])).collect();
    for hold in HOLDS {
        for engines in [1, ENGINES] {
            let contest = Contest { runtime: &runtime, size, hold, processors };
            contest.run(table, &server, &shipped[..engines], &without[..engines], &peers[..engines]);
        }
    }
    waiters(table, size, &runtime, [&shipped[0], &without[0]], processors);
}

async fn engine(server: &RedisServer, hand_offs_max: u32) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let mut config = EngineConfig::default();
    config.hand_offs_max = hand_offs_max;
    Engine::builder(transport).config(config).build().await.expect("the server is up")
}

struct Contest<'a> {
    runtime: &'a Runtime,
    size: Size,
    hold: Duration,
    processors: Processors,
}

impl Contest<'_> {
    fn run(
        &self,
        table: &mut Table,
        server: &RedisServer,
        shipped: &[Engine],
        without: &[Engine],
        peers: &[LockManager],
    ) {
        let hold = self.hold.as_millis();
        // Each contestant has a lock of its own: engines go on listening to the channel of a lock for a while.
        let title = format!(
            "hot lock, {} x {}, hold {hold} ms, {}",
            shipped.len(),
            CALLERS / shipped.len(),
            self.processors
        );
        let (mut ours, mut alone, mut theirs, mut serial) = (vec![], vec![], vec![], vec![]);
        for _ in 0..self.size.rounds {
            ours.push(self.round(shipped, pair, &format!("ours {title}")));
            alone.push(self.round(without, pair, &format!("without {title}")));
            theirs.push(self.round(peers, pair_of_peer, &format!("rslock {title}")));
            serial.push(raw::pairs_per_second(server.port(), 1, self.size.pairs / 4));
        }
        let of = |rounds: &[Round], figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        let mut add = |what: &str, figure, unit| table.add("", format!("{title}: {what}"), figure, unit);
        let (rate, rate_of_peer) = (of(&ours, |round| round.rate), of(&theirs, |round| round.rate));
        add("grants", Spread::of(rate.clone()), "grants/s");
        add(
            "grants / those without hand-offs",
            Spread::of_ratios(&rate, &of(&alone, |round| round.rate)),
            "x",
        );
        add("grants / pairs of one client in turn", Spread::of_ratios(&rate, &serial), "x");
        add("grants / rslock", Spread::of_ratios(&rate, &rate_of_peer), "x");
        add("Jain's index of the callers", Spread::of(of(&ours, |round| round.jain)), "");
        add("the same of rslock", Spread::of(of(&theirs, |round| round.jain)), "");
        add("smallest share of an engine / mean", Spread::of(of(&ours, |round| round.least)), "x");
        add("wait p50", Spread::of(of(&ours, |round| round.p50)), "ms");
        add("wait p99", Spread::of(of(&ours, |round| round.p99)), "ms");
        add("wait p50 of rslock", Spread::of(of(&theirs, |round| round.p50)), "ms");
        add("wait p99 of rslock", Spread::of(of(&theirs, |round| round.p99)), "ms");
    }

    /// As many callers as [`CALLERS`], equally of all clients, for a time.
    fn round<C, F>(&self, clients: &[C], pair: fn(C, Arc<str>, Duration) -> F, name: &str) -> Round
    where
        C: Clone + Send + 'static,
        F: Future<Output = Duration> + Send + 'static,
    {
        let (hold, end) = (self.hold, Instant::now() + Duration::from_micros(50 * self.size.pairs as u64));
        let mut calls = JoinSet::new();
        for number in 0..CALLERS {
            let (place, client) = (number % clients.len(), clients[number % clients.len()].clone());
            let name = Arc::<str>::from(name);
            calls.spawn_on(
                async move {
                    let mut waits = Vec::new();
                    while Instant::now() < end {
                        waits.push(pair(client.clone(), name.clone(), hold).await.as_secs_f64() * 1e3);
                    }
                    (place, waits)
                },
                self.runtime.handle(),
            );
        }
        let begin = Instant::now();
        let callers = self.runtime.block_on(calls.join_all());
        Round::of(&callers, clients.len(), begin.elapsed())
    }
}

/// Acquires and releases once. Returns how long it waited.
async fn pair(engine: Engine, name: Arc<str>, hold: Duration) -> Duration {
    let asked = Instant::now();
    let lease = engine.lock(&name).acquire().await.expect("in the end");
    let waited = asked.elapsed();
    pause(hold).await;
    lease.release().await.expect("it is ours");
    waited
}

async fn pair_of_peer(peer: LockManager, name: Arc<str>, hold: Duration) -> Duration {
    let asked = Instant::now();
    let lock = loop {
        if let Ok(lock) = peer.lock(name.as_bytes(), TTL).await {
            break lock;
        }
    };
    let waited = asked.elapsed();
    pause(hold).await;
    peer.unlock(&lock).await;
    waited
}

async fn pause(hold: Duration) {
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}

/// What one round came to.
struct Round {
    rate: f64,
    jain: f64,
    /// The grants of the client with the fewest, of the mean of all.
    least: f64,
    p50: f64,
    p99: f64,
}

impl Round {
    fn of(callers: &[(usize, Vec<f64>)], clients: usize, took: Duration) -> Self {
        let grants: Vec<f64> = callers.iter().map(|(_, waits)| waits.len() as f64).collect();
        let all: f64 = grants.iter().sum();
        let squares: f64 = grants.iter().map(|own| own * own).sum();
        let of_client = |client| {
            let own = callers.iter().filter(|(place, _)| *place == client);
            own.map(|(_, waits)| waits.len() as f64).sum::<f64>()
        };
        let least = (0..clients).map(of_client).fold(f64::INFINITY, f64::min);
        let mut waits: Vec<f64> = callers.iter().flat_map(|(_, waits)| waits.iter().copied()).collect();
        waits.sort_by(f64::total_cmp);
        let percentile = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        Self {
            rate: all / took.as_secs_f64(),
            jain: all * all / (grants.len() as f64 * squares),
            least: least / (all / clients as f64),
            p50: percentile(0.5),
            p99: percentile(0.99),
        }
    }
}

/// How long it takes until each of a hundred callers of one engine has had a lock that is given back.
fn waiters(
    table: &mut Table,
    size: Size,
    runtime: &Runtime,
    [shipped, without]: [&Engine; 2],
    processors: Processors,
) {
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        ours.push(runtime.block_on(serve(shipped)));
        alone.push(runtime.block_on(serve(without)));
    }
    let ratio = Spread::of_ratios(&ours, &alone);
    let title = format!("{WAITERS} callers of one engine served, {processors}");
    table.add("", title.clone(), Spread::of(ours), "ms");
    table.add("", format!("{title} / without hand-offs"), ratio, "x");
}

async fn serve(engine: &Engine) -> f64 {
    let lease = engine.lock(WAITED_FOR).acquire().await.expect("in the end");
    let mut calls = JoinSet::new();
    (0..WAITERS).for_each(|_| drop(calls.spawn(pair(engine.clone(), WAITED_FOR.into(), Duration::ZERO))));
    while engine.snapshot().waiting < WAITERS as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begin = Instant::now();
    lease.release().await.expect("it is ours");
    calls.join_all().await;
    begin.elapsed().as_secs_f64() * 1e3
}
