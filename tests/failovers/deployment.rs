//! Sentinels or a cluster, seen as parts: a part is what one master had at the start, and stays the same range of slots
//! whoever has it later.

use std::{
    ops::{Range, RangeInclusive},
    sync::Arc,
    time::Duration,
};

use leasehold::routing::slot::{SLOTS, Slot};
use leasehold_redis::{Address, NoticeKind, RedisConfig, RedisTransport};
use leasehold_tests::{
    changed,
    harness::{
        cluster::{RedisCluster, RedisClusterBuilder},
        node::Node,
        polling::found_within,
        sentinel::{RedisSentinel, SERVICE},
        server_version::ServerVersion,
    },
};

use crate::moment::Moment;

pub(crate) enum Deployment {
    Sentinel(RedisSentinel),
    Cluster(Box<Cluster>),
}

/// A cluster, and how it is used.
pub(crate) struct Cluster {
    itself: RedisCluster,
    /// The slots that all names of the first part fall into.
    crowded: RangeInclusive<u16>,
    notices: NoticeKind,
}

impl Deployment {
    /// A master, two replicas and three sentinels.
    pub(crate) fn sentinel() -> Self {
        Self::Sentinel(RedisSentinel::start().expect("sentinels"))
    }

    /// Three masters with a replica each.
    pub(crate) fn cluster() -> Self {
        Self::cluster_of(cluster_recipe())
    }

    /// Three masters without replicas; all that goes on at the first is in the slots of [`CROWDED`].
    pub(crate) fn crowded_cluster(version: ServerVersion, notices: NoticeKind) -> Self {
        let itself = cluster_recipe().version(version).replicas_each(0).start().expect("a cluster");
        Self::Cluster(Box::new(Cluster { itself, crowded: CROWDED, notices }))
    }

    /// Three masters without replicas: nobody takes over from one that stands still.
    pub(crate) fn cluster_without_replicas() -> Self {
        Self::cluster_of(cluster_recipe().replicas_each(0))
    }

    pub(crate) fn cluster_of(recipe: RedisClusterBuilder) -> Self {
        let itself = recipe.start().expect("a cluster");
        Self::Cluster(Box::new(Cluster { itself, crowded: 0..=SLOTS - 1, notices: NoticeKind::Auto }))
    }

    /// As [`Self::sentinel`], with a proxy in front of each server.
    pub(crate) fn proxied_sentinel() -> Self {
        Self::Sentinel(RedisSentinel::builder().proxied().start().expect("sentinels"))
    }

    /// As [`Self::cluster`], with a proxy in front of each server.
    pub(crate) fn proxied_cluster() -> Self {
        Self::cluster_of(cluster_recipe().proxied())
    }

    pub(crate) fn sentinels(&self) -> &RedisSentinel {
        let Deployment::Sentinel(sentinel) = self else { panic!("this is a cluster") };
        sentinel
    }

    pub(crate) fn cluster_itself(&self) -> &RedisCluster {
        let Deployment::Cluster(cluster) = self else { panic!("these are sentinels") };
        &cluster.itself
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
        let crowded = match self {
            Deployment::Cluster(cluster) if part == 0 => cluster.crowded.clone(),
            _ => 0..=SLOTS - 1,
        };
        let names = (0..).map(move |n: usize| format!("{kind}-{n}"));
        let fits = move |slot: u16| part_of(slot, masters) == part && crowded.contains(&slot);
        names.filter(move |name| fits(Slot::of(name.as_bytes()).number()))
    }

    /// Who has it now.
    pub(crate) fn master(&self, part: usize) -> Arc<Node> {
        let master = match self {
            Deployment::Sentinel(sentinel) => sentinel.master(),
            Deployment::Cluster(cluster) => cluster.itself.master_of(first_slot(part)),
        };
        master.expect("a master")
    }

    /// All data servers.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Deployment::Sentinel(sentinel) => sentinel.servers().to_vec(),
            Deployment::Cluster(cluster) => cluster.itself.nodes(),
        }
    }

    pub(crate) fn transport(&self) -> RedisTransport {
        let address = |text: String| text.parse::<Address>().expect("an address");
        RedisTransport::new(match self {
            Deployment::Sentinel(sentinel) => {
                RedisConfig::sentinel(sentinel.sentinel_addresses().into_iter().map(address), SERVICE)
            }
            Deployment::Cluster(cluster) => {
                let config = RedisConfig::cluster(cluster.itself.addresses().into_iter().map(address));
                changed(config, |new| new.notices = cluster.notices)
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

fn part_of(slot: u16, masters: usize) -> usize {
    (0..masters).find(|part| slot < first_slot_of(part + 1, masters)).expect("a slot")
}

fn first_slot(part: usize) -> u16 {
    first_slot_of(part, MASTERS)
}

// As the harness gives them out.
fn first_slot_of(part: usize, masters: usize) -> u16 {
    u16::try_from(part * usize::from(SLOTS) / masters).expect("a slot")
}

/// Twenty slots of the first part.
pub(crate) const CROWDED: RangeInclusive<u16> = 100..=119;
const MASTERS: usize = 3;
const HEALED_WITHIN: Duration = Duration::from_secs(60);
