//! A place where something could be left behind, and how to look.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, EngineBuilder, transport::Transport};
use leasehold_memory::{Faults, Faulty, MemoryTransport};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    deployment::{Deployment, Topology},
    polling::holds_within,
    redis_server::RedisServer,
    server_table::{Leftover, leftovers},
    shared::Shared,
};
use leasehold_tests::{changed, conservation::assert_balances_within};

/// A server of one test, or the part of shared ones whose names begin with a prefix of its own.
pub trait Fixture: Send + Sync + 'static {
    type Transport: Transport + Clone;

    fn start() -> Self;

    fn transport(&self) -> Self::Transport;

    /// What the names of this test begin with on the server.
    fn prefix(&self) -> &str {
        ""
    }

    /// What is left on the server: keys and channels.
    fn left(&self) -> Vec<String>;
}

pub struct Memory(MemoryTransport);

impl Fixture for Memory {
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

impl Fixture for Redis {
    type Transport = RedisTransport;

    fn start() -> Self {
        Self { server: RedisServer::start().expect("a server") }
    }

    fn transport(&self) -> RedisTransport {
        transport(&self.server.url())
    }

    fn left(&self) -> Vec<String> {
        let left = leftovers(self.server.port()).expect("an answer");
        left.into_iter().map(|left| format!("{left:?}")).collect()
    }
}

/// Forming these takes seconds: the tests share them.
pub struct Sentinel(Part);

impl Fixture for Sentinel {
    type Transport = RedisTransport;

    fn start() -> Self {
        static SERVERS: Shared<Deployment> = Shared::new();
        Self(Part::of(&SERVERS, Topology::Sentinel))
    }

    fn transport(&self) -> RedisTransport {
        transport(&self.0.servers.url())
    }

    fn prefix(&self) -> &str {
        &self.0.prefix
    }

    fn left(&self) -> Vec<String> {
        self.0.left()
    }
}

/// As [`Sentinel`].
pub struct Cluster(Part);

impl Fixture for Cluster {
    type Transport = RedisTransport;

    fn start() -> Self {
        static SERVERS: Shared<Deployment> = Shared::new();
        Self(Part::of(&SERVERS, Topology::Cluster))
    }

    fn transport(&self) -> RedisTransport {
        transport(&self.0.servers.url())
    }

    fn prefix(&self) -> &str {
        &self.0.prefix
    }

    fn left(&self) -> Vec<String> {
        self.0.left()
    }
}

/// What one test has of servers that all share.
struct Part {
    servers: Arc<Deployment>,
    prefix: String,
}

impl Part {
    fn of(servers: &Shared<Deployment>, topology: Topology) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let servers = servers.get(move || Deployment::start(topology).expect("servers"));
        Self { servers, prefix: format!("test-{}-", NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    fn left(&self) -> Vec<String> {
        let is_its_own = |left: &Leftover| match left {
            Leftover::Key { name, .. } | Leftover::Channel(name) => name.contains(&self.prefix),
        };
        let left = self.servers.leftovers().expect("an answer");
        left.into_iter().filter(is_its_own).map(|left| format!("{left:?}")).collect()
    }
}

/// A subscription that is kept warm is no leak, but looks like one.
pub fn transport(url: &str) -> RedisTransport {
    let config = RedisConfig::from_url(url).expect("a URL");
    RedisTransport::new(changed(config, |new| new.notices_warm_ms = 0))
}

/// A server, two engines on it as two processes would have them, and the faults between the first and the server.
pub struct Stage<G: Fixture> {
    pub fixture: G,
    pub transport: Faulty<G::Transport>,
    pub engine: Engine,
    pub other: Engine,
    pub faults: Faults,
}

impl<G: Fixture> Stage<G> {
    pub async fn new() -> Self {
        let fixture = G::start();
        let transport = Faulty::new(fixture.transport());
        let faults = transport.faults();
        let engine = Engine::builder(transport.clone()).name_prefix(fixture.prefix());
        let other = Engine::builder(fixture.transport()).name_prefix(fixture.prefix());
        let engine = engine.metrics().build().await.expect("an engine");
        let other = other.metrics().build().await.expect("an engine");
        Self { fixture, transport, engine, other, faults }
    }

    /// Another engine behind the faults.
    pub fn builder(&self) -> EngineBuilder {
        Engine::builder(self.transport.clone()).name_prefix(self.fixture.prefix())
    }

    /// Nothing is held, wanted, closed, watched or stored, soon, and all that was is accounted for.
    pub fn settles(&self) {
        let quiet = holds_within(PATIENCE, || {
            [&self.engine, &self.other].iter().all(|engine| {
                let seen = engine.snapshot();
                seen.held + seen.waiting + seen.entries + seen.closing == 0
            }) && self.fixture.left().is_empty()
        });
        assert!(quiet, "{:?} {:?} {:?}", self.engine.snapshot(), self.other.snapshot(), self.fixture.left());
        [&self.engine, &self.other].into_iter().for_each(|engine| assert_balances_within(PATIENCE, engine));
    }
}

/// Runs a test on a runtime like a service's.
pub fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Far above what closing the last owner takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One test of each behaviour for each ground, with the ground in its name.
macro_rules! on_every_ground {
    ($($behaviour:ident),+ $(,)?) => {
        mod memory {
            $crate::fixture::on_one!(Memory: $($behaviour),+);
        }
        mod redis {
            $crate::fixture::on_one!(Redis: $($behaviour),+);
        }
        mod sentinel {
            $crate::fixture::on_one!(Sentinel: $($behaviour),+);
        }
        mod cluster {
            $crate::fixture::on_one!(Cluster: $($behaviour),+);
        }
    };
}
pub(crate) use on_every_ground;

macro_rules! on_one {
    ($fixture:ident: $($behaviour:ident),+) => {
        $(#[test]
        fn $behaviour() {
            super::$behaviour::<crate::fixture::$fixture>();
        })+
    };
}
pub(crate) use on_one;
