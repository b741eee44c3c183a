//! The Redis transport on a master with two replicas and three sentinels, shared by the tests.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use leasehold::{clock::Clock, key::LockKey, transport::Transport};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::{
    conformance::{Ground, OtherDataGround, PeerGround},
    harness::{
        resp::Value,
        sentinel::{RedisSentinel, SERVICE},
    },
};

use crate::shared;

static SENTINEL: LazyLock<Arc<RedisSentinel>> =
    LazyLock::new(|| shared::start(|| RedisSentinel::start().expect("a master with sentinels")));

struct Sentinel {
    deployment: Arc<RedisSentinel>,
    transport: RedisTransport,
}

impl Sentinel {
    fn command(&self, arguments: &[&str]) -> Value {
        self.deployment.master().expect("a master").command(arguments).expect("a reply")
    }
}

impl Ground for Sentinel {
    const CLOCK: Clock = Clock::Boot;

    async fn fresh() -> Self {
        let deployment = SENTINEL.clone();
        let sentinels = deployment.sentinel_addresses();
        let sentinels = sentinels.iter().map(|address| address.parse().expect("an address"));
        let transport = RedisTransport::new(RedisConfig::sentinel(sentinels, SERVICE));
        Sentinel { deployment, transport }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }
}

impl PeerGround for Sentinel {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.command(&["HSET", key.on_server(), owner, &count.to_string()]);
        if let Some(ttl) = ttl {
            self.command(&["PEXPIRE", key.on_server(), &ttl.as_millis().to_string()]);
        }
    }
}

impl OtherDataGround for Sentinel {
    async fn put_other_data(&self, key: &Arc<LockKey>) {
        self.command(&["SET", key.on_server(), OTHER_DATA]);
    }

    async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
        let (kept, ttl) = (self.command(&["GET", key.on_server()]), self.command(&["PTTL", key.on_server()]));
        kept.text().as_deref() == Some(OTHER_DATA) && ttl.integer() == Some(-1)
    }
}

const OTHER_DATA: &str = "no lock";

leasehold_tests::conformance!(Sentinel: every, notices, peers, other_data);
