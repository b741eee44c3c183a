//! The Redis transport as a ground, whatever the deployment and the version of its servers.

use std::{sync::Arc, time::Duration};

use leasehold::{clock::Clock, key::LockKey, transport::Transport};
use leasehold_conformance::{FencedGround, Fixture, OtherDataGround, PeerGround, RestartGround};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{resp::Value, server_version::ServerVersion};

/// Servers for one test, and how to reach them.
pub trait Deployment: Sized {
    /// As [`Fixture::EVERY_NAME`].
    const EVERY_NAME: bool = true;

    /// For one test; its servers may be those of others too.
    fn fresh() -> Self;

    /// What a user would write.
    fn config(&self) -> RedisConfig;

    /// The answer of the server that has `key`.
    fn command(&self, key: &LockKey, arguments: &[&str]) -> Value;
}

/// A deployment whose servers can be restarted: no test shares them.
pub trait Restarted: Deployment {
    /// As [`RestartGround::restart`].
    fn restart(&self);
}

/// A version of the servers, as a type, so that each can have tests of its own.
pub trait Version {
    const VERSION: ServerVersion;
}

/// A ground on a deployment.
pub struct Redis<D> {
    deployment: D,
    transport: RedisTransport,
}

impl<D: Deployment> Fixture for Redis<D> {
    const CLOCK: Clock = Clock::Boot;
    const EVERY_NAME: bool = D::EVERY_NAME;

    async fn fresh() -> Self {
        let deployment = D::fresh();
        let transport = RedisTransport::new(deployment.config());
        Redis { deployment, transport }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }
}

impl<D: Deployment> PeerGround for Redis<D> {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.deployment.command(key, &["HSET", key.on_server(), owner, &count.to_string()]);
        if let Some(ttl) = ttl {
            self.deployment.command(key, &["PEXPIRE", key.on_server(), &ttl.as_millis().to_string()]);
        }
    }
}

impl<D: Deployment> OtherDataGround for Redis<D> {
    async fn put_other_data(&self, key: &Arc<LockKey>) {
        self.deployment.command(key, &["SET", key.on_server(), OTHER_DATA]);
    }

    async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
        let ask = |command| self.deployment.command(key, &[command, key.on_server()]);
        ask("GET").text().as_deref() == Some(OTHER_DATA) && ask("PTTL").integer() == Some(-1)
    }
}

impl<D: Deployment> FencedGround for Redis<D> {
    async fn put_token_counter(&self, key: &Arc<LockKey>, counter: Option<u64>) {
        let name = format!("redisson_lock_token:{{{}}}", key.on_server());
        match counter {
            Some(counter) => self.deployment.command(key, &["SET", &name, &counter.to_string()]),
            None => self.deployment.command(key, &["DEL", &name]),
        };
    }
}

impl<D: Restarted> RestartGround for Redis<D> {
    async fn restart(&self) {
        self.deployment.restart();
    }
}

/// Debian's, which is Redis 7.0 in bookworm.
pub struct Debian;
pub struct Redis62;
pub struct Redis82;
pub struct Valkey91;

impl Version for Debian {
    const VERSION: ServerVersion = ServerVersion::Debian;
}

impl Version for Redis62 {
    const VERSION: ServerVersion = ServerVersion::Redis62;
}

impl Version for Redis82 {
    const VERSION: ServerVersion = ServerVersion::Redis82;
}

impl Version for Valkey91 {
    const VERSION: ServerVersion = ServerVersion::Valkey91;
}

const OTHER_DATA: &str = "no lock";
