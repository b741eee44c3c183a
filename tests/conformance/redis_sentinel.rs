//! The Redis transport on a master with two replicas and three sentinels, shared by the tests but for those that restart
//! it.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use leasehold::key::LockKey;
use leasehold_conformance::{FencedCounter, FencedHybrid, OfKind, Spin, conformance};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{
    resp::Value,
    sentinel::{RedisSentinel, RedisSentinelBuilder, SERVICE},
    server_version::ServerVersion,
};

use crate::{
    redis::{Debian, Deployment, Redis, Redis62, Restarted, Version},
    shared::Shared,
};

struct Sentinel<V> {
    servers: Arc<RedisSentinel>,
    _version: PhantomData<V>,
}

/// One server each is enough where nobody fails.
struct Own(Sentinel<Debian>);

impl<V: Version> Deployment for Sentinel<V> {
    fn fresh() -> Self {
        static SHARED: Shared<RedisSentinel> = Shared::new();
        let start = |version| started(RedisSentinel::builder().version(version));
        Self { servers: SHARED.of(V::VERSION, start), _version: PhantomData }
    }

    fn config(&self) -> RedisConfig {
        let sentinels = self.servers.sentinel_addresses();
        RedisConfig::sentinel(sentinels.iter().map(|address| address.parse().expect("an address")), SERVICE)
    }

    fn command(&self, _: &LockKey, arguments: &[&str]) -> Value {
        self.servers.master().expect("a master").command(arguments).expect("a reply")
    }
}

impl Deployment for Own {
    fn fresh() -> Self {
        let builder = RedisSentinel::builder().version(ServerVersion::Debian).replicas(1).sentinels(1, 1);
        Self(Sentinel { servers: Arc::new(started(builder)), _version: PhantomData })
    }

    fn config(&self) -> RedisConfig {
        self.0.config()
    }

    fn command(&self, key: &LockKey, arguments: &[&str]) -> Value {
        self.0.command(key, arguments)
    }
}

impl Restarted for Own {
    fn restart(&self) {
        self.0.servers.master().expect("a master").restart().expect("restarted");
    }
}

/// No failover, however busy the machine: nothing here is about one.
fn started(builder: RedisSentinelBuilder) -> RedisSentinel {
    builder.down_after(Duration::from_secs(120)).start().expect("a master with sentinels")
}

mod debian {
    use super::*;
    conformance!(Redis<Sentinel<Debian>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod debian_restarted {
    use super::*;
    conformance!(Redis<Own>: restarts);
}

mod redis_6_2 {
    use super::*;
    conformance!(Redis<Sentinel<Redis62>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod debian_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Sentinel<Debian>>, FencedHybrid>: every, notices, peers, other_data, fenced);
}

mod debian_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Sentinel<Debian>>, FencedCounter>: fenced);
}

mod debian_spin {
    use super::*;
    conformance!(OfKind<Redis<Sentinel<Debian>>, Spin>: every, spin);
}
