//! Acquire + release pairs of distinct keys at 1, 8, 64 and 256 tasks, on memory and on a real server, with the
//! server's own limit beside them in the same run, in turn.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineConfig};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};
use rslock::LockManager;

use crate::{
    raw, rounds::Spread, runtime::one_worker, server_usage::ServerUsage, size::Size, table::Table,
    usage::usage,
};

const TASKS: [usize; 4] = [1, 8, 64, 256];

pub(crate) fn measure(table: &mut Table, size: Size) {
    let runtime = one_worker();
    let memory =
        runtime.block_on(Engine::builder(MemoryTransport::new()).build()).expect("memory is always there");
    let server = RedisServer::start().expect("a redis-server");
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let redis = runtime.block_on(Engine::builder(transport).build()).expect("the server is up");
    one_task(table, size, &server, &runtime, &redis);
    let peer = LockManager::new(vec![server.url()]);
    let alone = runtime.block_on(alone(&server));
    let here = runtime.block_on(on_this_runtime(&server));
    let beside = Beside { memory, redis, alone, here, peer };
    for tasks in TASKS {
        many_tasks(table, size, tasks, &server, &runtime, &beside);
    }
}

/// The engines that are measured in turn.
struct Beside {
    memory: Engine,
    redis: Engine,
    /// As `redis`, with a command for each call.
    alone: Engine,
    /// As `redis`, with its calls on the runtime of the callers.
    here: Engine,
    /// The plainest peer: one `SET NX` a lock, no renewal, no notice, no queue.
    peer: LockManager,
}

async fn alone(server: &RedisServer) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    let mut config = EngineConfig::default();
    config.group_commit_max = 1;
    Engine::builder(transport).config(config).build().await.expect("the server is up")
}

async fn on_this_runtime(server: &RedisServer) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a good URL");
    Engine::builder(transport).calls_on_current_runtime().build().await.expect("the server is up")
}

fn one_task(
    table: &mut Table,
    size: Size,
    server: &RedisServer,
    runtime: &tokio::runtime::Runtime,
    redis: &Engine,
) {
    let (mut ours, mut round_trips) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        round_trips.push(raw::round_trip_micros(server, size.pairs / 4));
        ours.push(runtime.block_on(pair_micros(redis, size.pairs / 4)));
    }
    let ratio = Spread::of_ratios(&ours, &round_trips);
    table.add("", "redis round trip of one script, blocking socket, p50", Spread::of(round_trips), "us");
    table.add("", "redis pair, 1 task, p50", Spread::of(ours), "us");
    table.add("P3", "redis pair p50 / round trip p50 (target 2.3)", ratio, "x");
}

async fn pair_micros(engine: &Engine, times: usize) -> f64 {
    let lock = engine.lock("pair");
    let mut micros = Vec::with_capacity(times);
    for _ in 0..times {
        let begin = Instant::now();
        lock.acquire().await.expect("no other caller wants it").release().await.expect("it is ours");
        micros.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}

fn many_tasks(
    table: &mut Table,
    size: Size,
    tasks: usize,
    server: &RedisServer,
    runtime: &tokio::runtime::Runtime,
    beside: &Beside,
) {
    let (mut on_memory, mut alone, mut peer, mut limits) = (vec![], vec![], vec![], vec![]);
    let (mut redis, mut here) = (Ours::default(), Ours::default());
    let mut client = server.client().expect("a connection");
    let (clients, pipeline) = if tasks > 8 { (50, 16) } else { (tasks, 1) };
    for _ in 0..size.rounds {
        on_memory.push(runtime.block_on(pairs_per_second(&beside.memory, tasks, size.pairs * 2)));
        redis.run(&mut client, size.pairs, || {
            runtime.block_on(pairs_per_second(&beside.redis, tasks, size.pairs))
        });
        here.run(&mut client, size.pairs, || {
            runtime.block_on(pairs_per_second(&beside.here, tasks, size.pairs))
        });
        alone.push(runtime.block_on(pairs_per_second(&beside.alone, tasks, size.pairs)));
        peer.push(runtime.block_on(pairs_per_second_of_peer(&beside.peer, tasks, size.pairs)));
        limits.push(raw::pairs_per_second(server, clients, pipeline, size.pairs));
    }
    let gain = Spread::of_ratios(&redis.rates, &alone);
    table.add("", format!("memory, {tasks} tasks"), Spread::of(on_memory), "pairs/s");
    for (name, ours) in [("redis", &redis), ("redis, calls on the callers' runtime", &here)] {
        let name = format!("{name}, {tasks} tasks");
        ours.add_to(table, &name);
        table.add("", format!("{name} / rslock"), Spread::of_ratios(&ours.rates, &peer), "x");
        let to_raw = Spread::of_ratios(&ours.rates, &limits);
        table.add("", format!("{name} / raw({clients}, {pipeline})"), to_raw, "x");
    }
    table.add("", format!("redis, {tasks} tasks, a command for each call"), Spread::of(alone), "pairs/s");
    table.add("", format!("redis, {tasks} tasks / a command for each call"), gain, "x");
    table.add("", format!("rslock, {tasks} tasks"), Spread::of(peer), "pairs/s");
    table.add("", format!("raw({clients}, {pipeline})"), Spread::of(limits), "pairs/s");
}

/// The rounds of one engine.
#[derive(Default)]
struct Ours {
    rates: Vec<f64>,
    used: Vec<Used>,
}

impl Ours {
    fn run(&mut self, client: &mut RawClient, pairs: usize, round: impl FnOnce() -> f64) {
        self.used.push(Used::by(client, pairs, || self.rates.push(round())));
    }

    fn add_to(&self, table: &mut Table, name: &str) {
        table.add("", name.to_owned(), Spread::of(self.rates.clone()), "pairs/s");
        let mut add = |what, figure: fn(&Used) -> f64, unit| {
            let spread = Spread::of(self.used.iter().map(figure).collect());
            table.add("", format!("{name}, {what}"), spread, unit);
        };
        add("commands a pair", |used| used.commands, "commands");
        add("processor time of the client a pair", |used| used.client_micros, "us");
        add("processor time of the server a pair", |used| used.server_micros, "us");
    }
}

/// What a pair has used in one round.
struct Used {
    commands: f64,
    /// Processor time of all threads of this process.
    client_micros: f64,
    server_micros: f64,
}

impl Used {
    fn by(client: &mut RawClient, pairs: usize, work: impl FnOnce()) -> Self {
        let (server, ours) = (ServerUsage::of(client), usage(Instant::now()));
        work();
        let (ours, server) = (usage(Instant::now()) - ours, ServerUsage::of(client) - server);
        let micros = |seconds: f64| 1e6 * seconds / pairs as f64;
        Self {
            commands: server.commands / pairs as f64,
            client_micros: micros(ours.cpu_seconds),
            server_micros: micros(server.cpu_seconds),
        }
    }
}

async fn pairs_per_second(engine: &Engine, tasks: usize, pairs: usize) -> f64 {
    let (each, begin) = ((pairs / tasks).max(1), Instant::now());
    let engine = Arc::new(engine.clone());
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let lock = engine.lock(format!("pairs:{task}"));
        running.spawn(async move {
            for _ in 0..each {
                lock.acquire().await.expect("no other caller wants it").release().await.expect("it is ours");
            }
        });
    }
    running.join_all().await;
    (each * tasks) as f64 / begin.elapsed().as_secs_f64()
}

async fn pairs_per_second_of_peer(peer: &LockManager, tasks: usize, pairs: usize) -> f64 {
    let (each, begin) = ((pairs / tasks).max(1), Instant::now());
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let (peer, name) = (peer.clone(), format!("rslock:{task}"));
        running.spawn(async move {
            for _ in 0..each {
                let lock = peer.lock(&*name, TTL).await.expect("no other caller wants it");
                peer.unlock(&lock).await;
            }
        });
    }
    running.join_all().await;
    (each * tasks) as f64 / begin.elapsed().as_secs_f64()
}

const TTL: Duration = Duration::from_secs(30);
