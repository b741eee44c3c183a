//! The servers under the leases, and what they have used.

use std::sync::Arc;

use leasehold_tests::harness::{
    cluster::RedisCluster, node::Node, raw_client::RawClient, redis_server::RedisServer,
};

use crate::server_usage::ServerUsage;

pub(super) enum Servers {
    Single(Box<RedisServer>),
    Cluster(Box<RedisCluster>),
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
        self.clients().iter_mut().map(ServerUsage::of).fold(ServerUsage::default(), ServerUsage::plus)
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
