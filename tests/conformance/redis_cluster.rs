//! The Redis transport on a cluster of three masters, shared by the tests but for those that restart it. Debian's has
//! replicas, too.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use leasehold::key::LockKey;
use leasehold_conformance::{FencedCounter, FencedHybrid, OfKind, Spin, conformance};
use leasehold_redis::{Address, RedisConfig};
use leasehold_tests::harness::{cluster::RedisCluster, resp::Value, server_version::ServerVersion};

use crate::{
    redis::{Debian, Deployment, Redis, Redis62, Redis82, Restarted, Valkey91, Version},
    shared::Shared,
};

struct Cluster<V> {
    cluster: Arc<RedisCluster>,
    _version: PhantomData<V>,
}

struct Own<V>(Cluster<V>);

impl<V: Version> Deployment for Cluster<V> {
    const EVERY_NAME: bool = false;

    fn fresh() -> Self {
        static SHARED: Shared<RedisCluster> = Shared::new();
        Self { cluster: SHARED.of(V::VERSION, started), _version: PhantomData }
    }

    fn config(&self) -> RedisConfig {
        RedisConfig::cluster(self.cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port)))
    }

    fn command(&self, key: &LockKey, arguments: &[&str]) -> Value {
        let master = self.cluster.master_of(key.slot().number()).expect("a master");
        master.command(arguments).expect("a reply")
    }
}

impl<V: Version> Deployment for Own<V> {
    const EVERY_NAME: bool = false;

    fn fresh() -> Self {
        let cluster = RedisCluster::builder().version(V::VERSION).replicas_each(0).start();
        Self(Cluster { cluster: Arc::new(cluster.expect("a cluster")), _version: PhantomData })
    }

    fn config(&self) -> RedisConfig {
        self.0.config()
    }

    fn command(&self, key: &LockKey, arguments: &[&str]) -> Value {
        self.0.command(key, arguments)
    }
}

impl<V: Version> Restarted for Own<V> {
    fn restart(&self) {
        for node in self.0.cluster.nodes() {
            node.restart().expect("restarted");
        }
    }
}

/// Silent nodes are not suspected, however busy the machine: nothing here is about a failover.
fn started(version: ServerVersion) -> RedisCluster {
    let replicas = usize::from(version == ServerVersion::Debian);
    let builder = RedisCluster::builder().version(version).replicas_each(replicas);
    builder.node_timeout(Duration::from_secs(15)).start().expect("a cluster")
}

mod debian {
    use super::*;
    conformance!(Redis<Cluster<Debian>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod debian_restarted {
    use super::*;
    conformance!(Redis<Own<Debian>>: restarts);
}

mod redis_6_2 {
    use super::*;
    conformance!(Redis<Cluster<Redis62>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod redis_8_2 {
    use super::*;
    conformance!(Redis<Cluster<Redis82>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod valkey_9_1 {
    use super::*;
    conformance!(Redis<Cluster<Valkey91>>: every, notices, peers, other_data, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod debian_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Debian>>, FencedHybrid>: every, notices, peers, other_data, fenced);
}

mod debian_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Debian>>, FencedCounter>: fenced);
}

mod redis_6_2_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Redis62>>, FencedHybrid>: peers, fenced);
}

mod redis_6_2_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Redis62>>, FencedCounter>: fenced);
}

mod valkey_9_1_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Valkey91>>, FencedHybrid>: peers, fenced);
}

mod valkey_9_1_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Valkey91>>, FencedCounter>: fenced);
}

mod debian_spin {
    use super::*;
    conformance!(OfKind<Redis<Cluster<Debian>>, Spin>: every, spin);
}
