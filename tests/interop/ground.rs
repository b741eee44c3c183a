//! One Redis, a JVM and an engine of ours, each behind a wire of its own that counts what passes.

use std::time::{Duration, Instant};

use leasehold::Engine;
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::polling::holds_within;
use leasehold_tests::harness::proxy::{Proxy, SeenRequest};
use leasehold_tests::harness::raw_client::RawClient;
use leasehold_tests::harness::redis_server::RedisServer;

use crate::java::Java;

/// The lock of most tests, and its channel.
pub const NAME: &str = "orders-0";
const CHANNEL: &str = "redisson_lock__channel:{orders-0}";

/// Fields drop in this order: clients before what they are connected to.
pub struct Ground {
    pub java: Java,
    pub engine: Engine,
    pub raw: RawClient,
    pub java_wire: Proxy,
    pub our_wire: Proxy,
    pub server: RedisServer,
}

impl Ground {
    /// Java's watchdog time and our ttl are both `ttl`.
    pub async fn new(ttl: Duration) -> Self {
        let server = RedisServer::start().expect("a server");
        let wire = || Proxy::start(server.port()).expect("a proxy");
        let (java_wire, our_wire) = (wire(), wire());
        let engine = engine(&our_wire.url(), ttl).await;
        let (java, raw) = (Java::start(&java_wire.url(), ttl), server.client().expect("a connection"));
        Self { java, engine, raw, java_wire, our_wire, server }
    }

    /// Waits until so many clients listen on the lock's channel.
    pub fn listeners(&mut self, count: i64) {
        let heard = || {
            let reply = self.raw.command(&["PUBSUB", "NUMSUB", CHANNEL]).expect("a reply");
            reply.items().get(1).and_then(|number| number.integer()) == Some(count)
        };
        assert!(holds_within(SOON, heard), "{count} listeners");
    }

    /// Milliseconds left of the lock; -2: nobody holds it.
    pub fn pttl(&mut self) -> i64 {
        self.raw.command(&["PTTL", NAME]).expect("a reply").integer().expect("a number")
    }

    /// The owners on the server.
    pub fn owners(&mut self) -> Vec<String> {
        self.raw.command(&["HKEYS", NAME]).expect("a reply").texts()
    }

    /// Waits until the engine has asked once more, so that its next poll is a second away.
    pub fn next_ask(&self) {
        let before = asks(&self.our_wire, NAME, None).len();
        assert!(holds_within(SOON, || asks(&self.our_wire, NAME, None).len() > before), "a poll");
    }
}

/// An engine of ours.
pub async fn engine(url: &str, ttl: Duration) -> Engine {
    let transport = RedisTransport::new(RedisConfig::from_url(url).expect("a URL"));
    Engine::builder(transport).ttl(ttl).build().await.expect("an engine")
}

/// The scripts about a lock that a wire has seen since then. Of a client that only waits, its tries to get it.
pub fn asks(wire: &Proxy, name: &str, since: Option<Instant>) -> Vec<SeenRequest> {
    let about_it = |request: &SeenRequest| {
        let names_it = request.arguments.iter().any(|argument| argument == name.as_bytes());
        names_it && request.command().starts_with("EVAL")
    };
    let since = |request: &SeenRequest| since.is_none_or(|since| request.at >= since);
    wire.requests().into_iter().filter(|request| about_it(request) && since(request)).collect()
}

/// Far above what anything takes that is not meant to wait.
pub const SOON: Duration = Duration::from_secs(20);
