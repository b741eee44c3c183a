//! How to start a cluster.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{RedisCluster, formation};
use crate::harness::node::{Front, Node};
use crate::harness::port::free_cluster_port;
use crate::harness::redis_server::{RedisServer, RedisServerBuilder};
use crate::harness::server_tls::ServerTls;
use crate::harness::server_version::ServerVersion;

/// How to start a [`RedisCluster`]. The defaults: 3 masters with one replica each, a node timeout of 1.5 s, no proxies.
#[derive(Clone, Debug)]
pub struct RedisClusterBuilder {
    masters: usize,
    replicas_each: usize,
    node_timeout: Duration,
    front: Front,
    server: RedisServerBuilder,
}

impl Default for RedisClusterBuilder {
    fn default() -> Self {
        Self {
            masters: 3,
            replicas_each: 1,
            node_timeout: Duration::from_millis(1500),
            front: Front::Direct,
            // A replica is to be there at once, not when others have come, too.
            server: RedisServer::builder().option("--repl-diskless-sync-delay", "0"),
        }
    }
}

impl RedisClusterBuilder {
    /// How many masters share the slots; at least one, and three for a failover without force.
    #[must_use]
    pub fn masters(self, masters: usize) -> Self {
        Self { masters, ..self }
    }

    /// How many replicas each master has.
    #[must_use]
    pub fn replicas_each(self, replicas_each: usize) -> Self {
        Self { replicas_each, ..self }
    }

    /// After how long a silent node is suspected.
    #[must_use]
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        Self { node_timeout, ..self }
    }

    /// A proxy in front of each node, announced instead of it.
    #[must_use]
    pub fn proxied(self) -> Self {
        Self { front: Front::Proxied, ..self }
    }

    /// Changes how each node's server is started: options, users, another program.
    #[must_use]
    pub fn servers(self, change: impl FnOnce(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        Self { server: change(self.server), ..self }
    }

    /// Another server than Debian's.
    #[must_use]
    pub fn version(self, version: ServerVersion) -> Self {
        self.servers(|server| server.version(version))
    }

    /// TLS for clients, replication and the bus.
    #[must_use]
    pub fn tls(self, tls: &ServerTls) -> Self {
        self.servers(|server| server.tls(tls))
    }

    /// The password of the default user, which replicas use, too.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.servers(|server| server.password(password).option("--masterauth", password))
    }

    /// Starts it and waits until all nodes agree.
    ///
    /// # Errors
    /// When a node does not start or they do not agree.
    pub fn start(self) -> io::Result<RedisCluster> {
        let nodes = self.start_nodes(self.masters * (1 + self.replicas_each))?;
        formation::form(&nodes, self.masters)?;
        let cluster = RedisCluster { nodes: Mutex::new(nodes), recipe: self };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    fn start_nodes(&self, count: usize) -> io::Result<Vec<Arc<Node>>> {
        // At the same time: each may take a moment on a busy machine.
        thread::scope(|scope| {
            let births: Vec<_> = (0..count).map(|_| scope.spawn(|| self.start_node())).collect();
            births.into_iter().map(|birth| birth.join().expect("starting a node does not panic")).collect()
        })
    }

    pub(super) fn start_node(&self) -> io::Result<Arc<Node>> {
        let timeout = self.node_timeout.as_millis().to_string();
        let recipe = self.server.clone().cluster_node().option("--cluster-node-timeout", &timeout);
        Node::start(&recipe, self.front, free_cluster_port, |recipe, port| {
            recipe.option("--cluster-announce-port", &port.to_string())
        })
    }
}
