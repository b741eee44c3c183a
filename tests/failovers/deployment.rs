//! Sentinels or a cluster, seen as parts: a part is what one master had at the start, and stays the same range of slots
//! whoever has it later.

use std::{ops::Range, sync::Arc, time::Duration};

use leasehold::routing::slot::{SLOTS, Slot};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    cluster::{RedisCluster, RedisClusterBuilder},
    node::Node,
    polling::found_within,
    sentinel::{RedisSentinel, SERVICE},
};

use crate::moment::Moment;

pub(crate) enum Deployment {
    Sentinel(RedisSentinel),
    Cluster(Box<RedisCluster>),
}

impl Deployment {
    /// A master, two replicas and three sentinels.
    pub(crate) fn sentinel() -> Self {
        Self::Sentinel(RedisSentinel::start().expect("sentinels"))
    }

    /// Three masters with a replica each.
    pub(crate) fn cluster() -> Self {
        Self::Cluster(Box::new(cluster_recipe().start().expect("a cluster")))
    }

    /// As [`Self::sentinel`], with a proxy in front of each server.
    pub(crate) fn proxied_sentinel() -> Self {
        Self::Sentinel(RedisSentinel::builder().proxied().start().expect("sentinels"))
    }

    /// As [`Self::cluster`], with a proxy in front of each server.
    pub(crate) fn proxied_cluster() -> Self {
        Self::Cluster(Box::new(cluster_recipe().proxied().start().expect("a cluster")))
    }

    pub(crate) fn sentinels(&self) -> &RedisSentinel {
        let Deployment::Sentinel(sentinel) = self else { panic!("this is a cluster") };
        sentinel
    }

    pub(crate) fn cluster_itself(&self) -> &RedisCluster {
        let Deployment::Cluster(cluster) = self else { panic!("these are sentinels") };
        cluster
    }

    /// A replica of the master of a part of a cluster.
    pub(crate) fn replica(&self, part: usize) -> Arc<Node> {
        self.cluster_itself().replica_of(first_slot(part)).expect("a replica")
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> Range<usize> {
        match self {
            Deployment::Sentinel(_) => 0..1,
            Deployment::Cluster(_) => 0..MASTERS,
        }
    }

    /// Names of locks of one part, without end.
    pub(crate) fn names(&self, part: usize, kind: &str) -> impl Iterator<Item = String> + Send + use<> {
        let (kind, masters) = (kind.to_owned(), self.parts().len());
        let names = (0..).map(move |n: usize| format!("{kind}-{n}"));
        names.filter(move |name| part_of(name, masters) == part)
    }

    /// Who has it now.
    pub(crate) fn master(&self, part: usize) -> Arc<Node> {
        let master = match self {
            Deployment::Sentinel(sentinel) => sentinel.master(),
            Deployment::Cluster(cluster) => cluster.master_of(first_slot(part)),
        };
        master.expect("a master")
    }

    /// All data servers.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Deployment::Sentinel(sentinel) => sentinel.servers().to_vec(),
            Deployment::Cluster(cluster) => cluster.nodes(),
        }
    }

    pub(crate) fn transport(&self) -> RedisTransport {
        let address = |text: String| text.parse::<Address>().expect("an address");
        RedisTransport::new(match self {
            Deployment::Sentinel(sentinel) => {
                RedisConfig::sentinel(sentinel.sentinel_addresses().into_iter().map(address), SERVICE)
            }
            Deployment::Cluster(cluster) => {
                RedisConfig::cluster(cluster.addresses().into_iter().map(address))
            }
        })
    }

    /// Waits until a client of no library can write to the part on a node that is not left out. When it could.
    pub(crate) fn healed(&self, part: usize, left_out: &[&Node]) -> Moment {
        let key = self.names(part, "raw").next().expect("a name");
        let write = ["SET", &key, "1", "PX", "1000"];
        let is_left_out = |node: &Node| left_out.iter().any(|out| out.own_port() == node.own_port());
        let others: Vec<_> = self.nodes().into_iter().filter(|node| !is_left_out(node)).collect();
        let writes = |node: &&Arc<Node>| node.runs() && node.command(&write).is_ok_and(|reply| reply.is_ok());
        let healed = || others.iter().find(writes).map(|_| Moment::now());
        found_within(HEALED_WITHIN, healed).expect("another master within a minute")
    }
}

/// By default all masters refuse everything while one has failed and is not replaced yet: then no client can be
/// untouched by the failure of a node that it does not talk to.
fn cluster_recipe() -> RedisClusterBuilder {
    RedisCluster::builder().servers(|server| server.option("--cluster-require-full-coverage", "no"))
}

fn part_of(name: &str, masters: usize) -> usize {
    let slot = usize::from(Slot::of(name.as_bytes()).number());
    (0..masters).find(|part| slot < usize::from(first_slot_of(part + 1, masters))).expect("a slot")
}

fn first_slot(part: usize) -> u16 {
    first_slot_of(part, MASTERS)
}

// As the harness gives them out.
fn first_slot_of(part: usize, masters: usize) -> u16 {
    u16::try_from(part * usize::from(SLOTS) / masters).expect("a slot")
}

const MASTERS: usize = 3;
const HEALED_WITHIN: Duration = Duration::from_secs(60);
