//! Who acquires and releases.

use std::time::{Duration, Instant};

use leasehold::{Engine, EngineConfig};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use rslock::LockManager;
use tokio::{runtime::Runtime, task::JoinSet};

use super::place::Place;
use crate::raw;

/// The names by which rows tell them apart.
pub(super) const MEMORY: &str = "memory";
pub(super) const SHIPPED: &str = "redis";
pub(super) const ON_CALLERS: &str = "redis, calls on the callers' runtime";
pub(super) const ALONE: &str = "redis, a command for each call";
pub(super) const OWN_THREAD: &str = "redis, connections stay on the engine's thread";
pub(super) const PEER: &str = "rslock";
pub(super) const RAW: &str = "raw";

pub(super) enum Contestant {
    Ours(&'static str, Engine),
    /// The plainest peer: one `SET NX` a lock, no renewal, no notice, no queue.
    Peer(LockManager),
    /// The server's own limit: one connection with a command of each task in flight.
    Raw,
}

/// Those that are measured in turn. Group commit, and connections that follow their callers, have their own controls on a
/// server of this machine only.
pub(super) async fn lineup(place: &Place) -> Vec<Contestant> {
    let mut all = Vec::new();
    if !place.is_far() {
        let memory = Engine::builder(MemoryTransport::new()).build().await;
        all.push(Contestant::Ours(MEMORY, memory.expect("memory is always there")));
    }
    all.push(Contestant::Ours(SHIPPED, shipped(place).await));
    let on_callers = Engine::builder(transport(place)).calls_on_current_runtime().build().await;
    all.push(Contestant::Ours(ON_CALLERS, on_callers.expect("the server is up")));
    if !place.is_far() {
        all.push(Contestant::Ours(ALONE, with(place, |config| config.group_commit_max = 1).await));
        let own_thread = with(place, |config| config.connections_follow_callers = false).await;
        all.push(Contestant::Ours(OWN_THREAD, own_thread));
    }
    all.push(Contestant::Peer(LockManager::new(vec![place.url()])));
    all.push(Contestant::Raw);
    all
}

pub(super) async fn shipped(place: &Place) -> Engine {
    Engine::builder(transport(place)).build().await.expect("the server is up")
}

async fn with(place: &Place, change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig::default();
    change(&mut config);
    Engine::builder(transport(place)).config(config).build().await.expect("the server is up")
}

fn transport(place: &Place) -> RedisTransport {
    RedisTransport::from_url(&place.url()).expect("a good URL")
}

impl Contestant {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ours(name, _) => name,
            Self::Peer(_) => PEER,
            Self::Raw => RAW,
        }
    }

    /// Of one round.
    pub(super) fn pairs_per_second(
        &self,
        runtime: &Runtime,
        place: &Place,
        tasks: usize,
        pairs: usize,
    ) -> f64 {
        let each = (pairs / tasks).max(1);
        match self {
            Self::Ours(_, engine) => runtime.block_on(in_tasks(tasks, each, |task| ours(engine, task, each))),
            Self::Peer(peer) => runtime.block_on(in_tasks(tasks, each, |task| theirs(peer, task, each))),
            Self::Raw => raw::pairs_per_second(place.port(), tasks, pairs),
        }
    }
}

/// Pairs a second of `tasks` tasks that make `each` pairs each.
async fn in_tasks<F>(tasks: usize, each: usize, work: impl Fn(usize) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let begin = Instant::now();
    let mut running = JoinSet::new();
    (0..tasks).for_each(|task| drop(running.spawn(work(task))));
    running.join_all().await;
    (each * tasks) as f64 / begin.elapsed().as_secs_f64()
}

fn ours(engine: &Engine, task: usize, each: usize) -> impl Future<Output = ()> + use<> {
    let lock = engine.lock(format!("pairs:{task}"));
    async move {
        for _ in 0..each {
            lock.acquire().await.expect("no other caller wants it").release().await.expect("it is ours");
        }
    }
}

fn theirs(peer: &LockManager, task: usize, each: usize) -> impl Future<Output = ()> + use<> {
    let (peer, name) = (peer.clone(), format!("rslock:{task}"));
    async move {
        for _ in 0..each {
            let lock = peer.lock(&*name, TTL).await.expect("no other caller wants it");
            peer.unlock(&lock).await;
        }
    }
}

const TTL: Duration = Duration::from_secs(30);
