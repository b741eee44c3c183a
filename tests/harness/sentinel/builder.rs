//! How to start a master with replicas and sentinels.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{RedisSentinel, SERVICE};
use crate::harness::node::{Announce, Front, Node};
use crate::harness::port::free_port;
use crate::harness::redis_server::{RedisServer, RedisServerBuilder};
use crate::harness::server_tls::ServerTls;
use crate::harness::server_version::ServerVersion;

/// How to start a [`RedisSentinel`]. The defaults: 2 replicas, 3 sentinels with a quorum of 2, a silent master is suspected
/// after 1 s, a failed failover is tried again after twice 5 s, no proxies.
#[derive(Clone, Debug)]
pub struct RedisSentinelBuilder {
    replicas: usize,
    sentinels: usize,
    quorum: usize,
    down_after: Duration,
    failover_timeout: Duration,
    front: Front,
    server: RedisServerBuilder,
    sentinel: RedisServerBuilder,
}

impl Default for RedisSentinelBuilder {
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            quorum: 2,
            down_after: Duration::from_millis(1000),
            failover_timeout: Duration::from_secs(5),
            front: Front::Direct,
            // A replica is to be there at once, not when others have come, too.
            server: RedisServer::builder().option("--repl-diskless-sync-delay", "0"),
            sentinel: RedisServer::builder(),
        }
    }
}

impl RedisSentinelBuilder {
    /// How many replicas the master has.
    #[must_use]
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// How many sentinels there are, and how many of them must agree that the master is down.
    #[must_use]
    pub fn sentinels(self, sentinels: usize, quorum: usize) -> Self {
        Self { sentinels, quorum, ..self }
    }

    /// After how long a silent master is suspected.
    #[must_use]
    pub fn down_after(self, down_after: Duration) -> Self {
        Self { down_after, ..self }
    }

    /// `failover-timeout` of the sentinels.
    #[must_use]
    pub fn failover_timeout(self, failover_timeout: Duration) -> Self {
        Self { failover_timeout, ..self }
    }

    /// A proxy in front of each data server, announced instead of it.
    #[must_use]
    pub fn proxied(self) -> Self {
        Self { front: Front::Proxied, ..self }
    }

    /// Changes how each data server is started: options, users, another program.
    #[must_use]
    pub fn servers(self, change: impl FnOnce(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        Self { server: change(self.server), ..self }
    }

    /// Changes how each sentinel is started.
    #[must_use]
    pub fn sentinel_servers(self, change: impl FnOnce(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        Self { sentinel: change(self.sentinel), ..self }
    }

    /// Another server than Debian's.
    #[must_use]
    pub fn version(self, version: ServerVersion) -> Self {
        self.servers(|server| server.version(version)).sentinel_servers(|sentinel| sentinel.version(version))
    }

    /// TLS for clients, replication and sentinels.
    #[must_use]
    pub fn tls(self, tls: &ServerTls) -> Self {
        self.servers(|server| server.tls(tls)).sentinel_servers(|sentinel| sentinel.tls(tls))
    }

    /// The password of the default user of the data servers, which replicas and sentinels use, too.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.servers(|server| server.password(password).option("--masterauth", password))
    }

    /// The password of the sentinels, for clients and for each other.
    #[must_use]
    pub fn sentinel_password(self, password: &str) -> Self {
        self.sentinel_servers(|sentinel| sentinel.password(password))
    }

    /// Starts it and waits until all know each other.
    ///
    /// # Errors
    /// When a process does not start or they do not find each other.
    pub fn start(self) -> io::Result<RedisSentinel> {
        let master = self.start_server(&self.server)?;
        let port = master.port().to_string();
        let replica = self.server.clone().arguments(["--replicaof", "127.0.0.1", &port]);
        let replicas = at_once(self.replicas, || self.start_server(&replica))?;
        let servers: Vec<_> = [master].into_iter().chain(replicas).collect();
        let sentinel = self.sentinel.clone().sentinel(&self.sentinel_config(&port));
        let sentinels =
            at_once(self.sentinels, || Node::start(&sentinel, Front::Direct, free_port, |recipe, _| recipe))?;
        let deployment = RedisSentinel { sentinels, servers };
        deployment.wait_until_whole()?;
        Ok(deployment)
    }

    fn start_server(&self, recipe: &RedisServerBuilder) -> io::Result<Arc<Node>> {
        // Every server, also the first master: it is a replica after its first failover.
        let announce: Announce =
            |recipe, port| recipe.arguments(["--replica-announce-port", &port.to_string()]);
        Node::start(recipe, self.front, free_port, announce)
    }

    fn sentinel_config(&self, port: &str) -> String {
        let (down_after, timeout) = (self.down_after.as_millis(), self.failover_timeout.as_millis());
        let mut config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {port} {}\n\
             sentinel down-after-milliseconds {SERVICE} {down_after}\n\
             sentinel failover-timeout {SERVICE} {timeout}\n\
             sentinel parallel-syncs {SERVICE} 2\n",
            self.quorum
        );
        if let Some(password) = self.server.default_password() {
            config.push_str(&format!("sentinel auth-pass {SERVICE} {password}\n"));
        }
        config
    }
}

fn at_once(count: usize, start: impl Fn() -> io::Result<Arc<Node>> + Sync) -> io::Result<Vec<Arc<Node>>> {
    thread::scope(|scope| {
        let births: Vec<_> = (0..count).map(|_| scope.spawn(&start)).collect();
        births.into_iter().map(|birth| birth.join().expect("starting a server does not panic")).collect()
    })
}
