//! Servers with a proxy in front of each, and engines that reach them through the proxies.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineBuilder, Lease};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{
    cluster::RedisCluster,
    deployment::{Deployment, Topology},
    node::Node,
    proxy::{Proxy, SeenRequest},
    raw_client::RawClient,
    redis_server::{RedisServer, RedisServerBuilder},
    resp::Value,
    sentinel::RedisSentinel,
};

use crate::commands::Kind;

/// One server, unless a test is about more.
pub(crate) struct Fixture {
    /// In front of [`Self::server`].
    pub(crate) proxy: Arc<Proxy>,
    /// The one that has the lock `k`.
    pub(crate) server: Arc<Node>,
    pub(crate) servers: Deployment,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::on(RedisServer::builder())
    }

    pub(crate) fn on(server: RedisServerBuilder) -> Self {
        Self::of(Deployment::single_proxied(&server).expect("a server"))
    }

    /// As few servers as the topology has when none of them fails.
    pub(crate) fn of_topology(topology: Topology) -> Self {
        match topology {
            Topology::Single => Self::new(),
            Topology::Sentinel => {
                let builder = RedisSentinel::builder().replicas(1).sentinels(1, 1).down_after(CALM);
                Self::of(Deployment::Sentinel(builder.proxied().start().expect("sentinels")))
            }
            Topology::Cluster => {
                let builder = RedisCluster::builder().replicas_each(0).node_timeout(CALM);
                Self::of(Deployment::Cluster(Box::new(builder.proxied().start().expect("a cluster"))))
            }
        }
    }

    fn of(servers: Deployment) -> Self {
        let server = servers.master_of("k").expect("a master");
        Self { proxy: server.proxy().expect("a proxy"), server, servers }
    }

    /// An engine behind the proxies.
    pub(crate) fn builder(&self) -> EngineBuilder {
        builder(&self.servers.url())
    }

    /// Another process, as it were: an engine beside the proxy, where there is a way.
    pub(crate) async fn stranger(&self) -> Engine {
        self.builder_beside().build().await.expect("an engine")
    }

    /// Of such an engine.
    pub(crate) fn builder_beside(&self) -> EngineBuilder {
        match self.servers.topology() {
            Topology::Single => builder(&format!("redis://127.0.0.1:{}", self.server.own_port())),
            Topology::Sentinel | Topology::Cluster => self.builder(),
        }
    }

    /// What engines have sent to any server.
    pub(crate) fn sent(&self, fits: impl Fn(&SeenRequest) -> bool) -> Vec<SeenRequest> {
        let ours = |client: &String| client.starts_with("leasehold-");
        self.servers.requests(|request| request.client.as_ref().is_some_and(ours) && fits(request))
    }

    /// Of one kind.
    pub(crate) fn seen(&self, kind: Kind) -> Vec<SeenRequest> {
        self.sent(|request| Kind::of(&request.arguments) == Some(kind))
    }

    /// How many listen on the channel of `k`.
    pub(crate) fn listeners(&self) -> i64 {
        let count = if self.is_sharded() { "SHARDNUMSUB" } else { "NUMSUB" };
        self.command(&["PUBSUB", count, CHANNEL]).items()[1].integer().expect("a number")
    }

    /// The message of a release of `k`, as peers send it.
    pub(crate) fn notice(&self) -> [&'static str; 3] {
        [if self.is_sharded() { "SPUBLISH" } else { "PUBLISH" }, CHANNEL, "0"]
    }

    fn is_sharded(&self) -> bool {
        self.servers.topology() == Topology::Cluster
    }

    /// Past the proxy.
    pub(crate) fn raw(&self) -> RawClient {
        self.server.client().expect("a connection")
    }

    /// One command past the proxy, over a connection of its own.
    pub(crate) fn command(&self, arguments: &[&str]) -> Value {
        self.raw().command(arguments).expect("a reply")
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let masters = self.servers.masters().expect("masters");
        masters.iter().flat_map(|master| master.command(&["KEYS", "*"]).expect("a reply").texts()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys().is_empty()
    }

    pub(crate) fn pttl_ms(&self, key: &str) -> i64 {
        self.command(&["PTTL", key]).integer().expect("milliseconds")
    }

    /// Microseconds.
    pub(crate) fn server_time(&self) -> u64 {
        let parts = self.command(&["TIME"]).texts();
        let part = |n: usize| parts[n].parse::<u64>().expect("a number");
        part(0) * 1_000_000 + part(1)
    }

    /// Whether one owner holds the lock, once.
    pub(crate) fn is_held_once(&self, key: &str) -> bool {
        let content = self.command(&["HGETALL", key]).texts();
        content.len() == 2 && content[1] == "1"
    }
}

pub(crate) fn builder(url: &str) -> EngineBuilder {
    Engine::builder(RedisTransport::from_url(url).expect("a url"))
}

/// Leases of the locks `k0`, `k1` ... with these numbers.
pub(crate) async fn hold(engine: &Engine, numbers: Range<usize>) -> Vec<Lease> {
    let mut asked = tokio::task::JoinSet::new();
    let mut leases = Vec::new();
    for n in numbers {
        if asked.len() == AT_ONCE {
            leases.push(asked.join_next().await.expect("a task").expect("no panic"));
        }
        let acquire = engine.lock(format!("k{n}")).acquire();
        asked.spawn(async move { acquire.await.expect("a lease") });
    }
    leases.extend(asked.join_all().await);
    leases
}

/// Looks until it is so; the bound is far beyond what a healthy machine needs.
pub(crate) async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let began = Instant::now();
    while !fact() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(2);
const AT_ONCE: usize = 64;
const CHANNEL: &str = "redisson_lock__channel:{k}";
/// A silent server is not suspected.
const CALM: Duration = Duration::from_secs(15);
