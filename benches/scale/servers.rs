//! The servers under the leases, and what they have used.

use std::{ops::Sub, sync::Arc};

use leasehold_tests::harness::{
    cluster::RedisCluster, node::Node, raw_client::RawClient, redis_server::RedisServer,
};

pub(super) enum Servers {
    Single(Box<RedisServer>),
    Cluster(Box<RedisCluster>),
}

/// Of all servers together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerUsage {
    pub(super) cpu_seconds: f64,
    /// Sent by clients, not from within scripts.
    pub(super) commands: f64,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
}

impl Servers {
    pub(super) fn single() -> Self {
        Self::Single(Box::new(RedisServer::start().expect("a redis-server")))
    }

    pub(super) fn cluster() -> Self {
        let recipe = RedisCluster::builder().masters(3).replicas_each(0);
        Self::Cluster(Box::new(recipe.start().expect("a cluster")))
    }

    pub(super) fn url(&self) -> String {
        match self {
            Servers::Single(server) => server.url(),
            Servers::Cluster(cluster) => cluster.url(),
        }
    }

    pub(super) fn usage(&self) -> ServerUsage {
        self.clients().iter_mut().map(usage).fold(ServerUsage::default(), ServerUsage::plus)
    }

    pub(super) fn empty(&self) {
        self.clients().iter_mut().for_each(|client| drop(client.command(&["FLUSHALL"]).expect("a reply")));
    }

    fn clients(&self) -> Vec<RawClient> {
        match self {
            Servers::Single(server) => vec![server.client().expect("a connection")],
            Servers::Cluster(cluster) => {
                let client = |node: &Arc<Node>| node.client().expect("a connection");
                cluster.masters().expect("masters").iter().map(client).collect()
            }
        }
    }
}

impl ServerUsage {
    fn plus(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            commands: self.commands + other.commands,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }
}

impl Sub for ServerUsage {
    type Output = ServerUsage;

    fn sub(self, earlier: ServerUsage) -> ServerUsage {
        ServerUsage {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            commands: self.commands - earlier.commands,
            bytes_in: self.bytes_in - earlier.bytes_in,
            bytes_out: self.bytes_out - earlier.bytes_out,
        }
    }
}

fn usage(client: &mut RawClient) -> ServerUsage {
    let info = client.command(&["INFO", "everything"]).expect("a reply");
    let text = info.text().expect("text").to_owned();
    let field = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
    };
    let calls = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    ServerUsage {
        cpu_seconds: field("used_cpu_sys") + field("used_cpu_user"),
        commands: calls("evalsha") + calls("eval"),
        bytes_in: field("total_net_input_bytes"),
        bytes_out: field("total_net_output_bytes"),
    }
}
