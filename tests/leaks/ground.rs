//! A place where something could be left behind, and how to look.

use std::time::Duration;

use leasehold::{Engine, transport::Transport};
use leasehold_memory::{Faults, Faulty, MemoryTransport};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{polling::holds_within, redis_server::RedisServer, server_table::leftovers};

/// A server of one test.
pub trait Ground: Send + Sync + 'static {
    type Transport: Transport + Clone;

    fn start() -> Self;

    fn transport(&self) -> Self::Transport;

    /// What is left on the server: keys and channels.
    fn left(&self) -> Vec<String>;
}

pub struct Memory(MemoryTransport);

impl Ground for Memory {
    type Transport = MemoryTransport;

    fn start() -> Self {
        Self(MemoryTransport::new())
    }

    fn transport(&self) -> MemoryTransport {
        self.0.clone()
    }

    fn left(&self) -> Vec<String> {
        let (holds, watched) = (self.0.stored_holds(), self.0.watched_keys());
        if holds + watched == 0 { vec![] } else { vec![format!("{holds} holds, {watched} watched keys")] }
    }
}

pub struct Redis {
    pub server: RedisServer,
}

impl Ground for Redis {
    type Transport = RedisTransport;

    fn start() -> Self {
        Self { server: RedisServer::start().expect("a server") }
    }

    fn transport(&self) -> RedisTransport {
        // A subscription that is kept warm is no leak, but looks like one.
        let config =
            RedisConfig { notices_warm_ms: 0, ..RedisConfig::single("127.0.0.1", self.server.port()) };
        RedisTransport::new(config)
    }

    fn left(&self) -> Vec<String> {
        let left = leftovers(self.server.port()).expect("an answer");
        left.into_iter().map(|left| format!("{left:?}")).collect()
    }
}

/// A server, two engines on it as two processes would have them, and the faults between the first and the server.
pub struct Stage<G: Ground> {
    pub ground: G,
    pub transport: Faulty<G::Transport>,
    pub engine: Engine,
    pub other: Engine,
    pub faults: Faults,
}

impl<G: Ground> Stage<G> {
    pub async fn new() -> Self {
        let ground = G::start();
        let transport = Faulty::new(ground.transport());
        let faults = transport.faults();
        let engine = Engine::builder(transport.clone()).build().await.expect("an engine");
        let other = Engine::builder(ground.transport()).build().await.expect("an engine");
        Self { ground, transport, engine, other, faults }
    }

    /// Nothing is held, wanted, closed, watched or stored, soon.
    pub fn settles(&self) {
        let quiet = holds_within(PATIENCE, || {
            [&self.engine, &self.other].iter().all(|engine| {
                let seen = engine.snapshot();
                seen.held + seen.waiting + seen.entries + seen.closing == 0
            }) && self.ground.left().is_empty()
        });
        assert!(quiet, "{:?} {:?} {:?}", self.engine.snapshot(), self.other.snapshot(), self.ground.left());
    }
}

/// Runs a test on a runtime like a service's.
pub fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

/// Far above what closing the last owner takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One test of each behaviour for each ground, with the ground in its name.
macro_rules! on_memory_and_redis {
    ($($behaviour:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $behaviour() {
                super::$behaviour::<crate::ground::Memory>();
            })+
        }
        mod redis {
            $(#[test]
            fn $behaviour() {
                super::$behaviour::<crate::ground::Redis>();
            })+
        }
    };
}
pub(crate) use on_memory_and_redis;
