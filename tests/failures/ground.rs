//! A server, a proxy in front of it, and engines that reach it through the proxy.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use leasehold::{Engine, EngineBuilder, Lease};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{
    proxy::Proxy,
    raw_client::RawClient,
    redis_server::{RedisServer, RedisServerBuilder},
    resp::Value,
};

pub(crate) struct Ground {
    pub(crate) proxy: Proxy,
    pub(crate) server: RedisServer,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::on(RedisServer::builder())
    }

    pub(crate) fn on(server: RedisServerBuilder) -> Self {
        let server = server.start().expect("a server");
        Self { proxy: Proxy::start(server.port()).expect("a proxy"), server }
    }

    /// An engine behind the proxy.
    pub(crate) fn builder(&self) -> EngineBuilder {
        builder(&self.proxy.url())
    }

    /// Another process, as it were: an engine beside the proxy.
    pub(crate) async fn stranger(&self) -> Engine {
        builder(&self.server.url()).build().await.expect("an engine")
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
        self.command(&["KEYS", "*"]).texts()
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
