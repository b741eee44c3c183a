//! The Redis transport on a cluster of three masters and three replicas, shared by the tests.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use leasehold::{clock::Clock, key::LockKey, transport::Transport};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::{
    conformance::{Ground, OtherDataGround, PeerGround},
    harness::{cluster::RedisCluster, resp::Value},
};

use crate::shared;

static CLUSTER: LazyLock<Arc<RedisCluster>> =
    LazyLock::new(|| shared::start(|| RedisCluster::start().expect("a cluster")));

struct Cluster {
    cluster: Arc<RedisCluster>,
    transport: RedisTransport,
}

impl Cluster {
    fn command(&self, key: &LockKey, arguments: &[&str]) -> Value {
        let master = self.cluster.master_of(key.slot().number()).expect("a master");
        master.command(arguments).expect("a reply")
    }
}

impl Ground for Cluster {
    const CLOCK: Clock = Clock::Boot;
    const EVERY_NAME: bool = false;

    async fn fresh() -> Self {
        let cluster = CLUSTER.clone();
        let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
        let transport = RedisTransport::new(RedisConfig::cluster(nodes));
        Cluster { cluster, transport }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }
}

impl PeerGround for Cluster {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.command(key, &["HSET", key.on_server(), owner, &count.to_string()]);
        if let Some(ttl) = ttl {
            self.command(key, &["PEXPIRE", key.on_server(), &ttl.as_millis().to_string()]);
        }
    }
}

impl OtherDataGround for Cluster {
    async fn put_other_data(&self, key: &Arc<LockKey>) {
        self.command(key, &["SET", key.on_server(), OTHER_DATA]);
    }

    async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
        let (kept, ttl) =
            (self.command(key, &["GET", key.on_server()]), self.command(key, &["PTTL", key.on_server()]));
        kept.text().as_deref() == Some(OTHER_DATA) && ttl.integer() == Some(-1)
    }
}

const OTHER_DATA: &str = "no lock";

leasehold_tests::conformance!(Cluster: every, notices, peers, other_data);
