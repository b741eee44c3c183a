//! What the contenders meet on: one server, sentinels, or a cluster of Debian's Redis.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_tests::harness::checkers::held_by_nobody;
use leasehold_tests::harness::cluster::RedisCluster;
use leasehold_tests::harness::node::Node;
use leasehold_tests::harness::polling::holds_within;
use leasehold_tests::harness::raw_client::RawClient;
use leasehold_tests::harness::recorder::Window;
use leasehold_tests::harness::redis_server::RedisServer;
use leasehold_tests::harness::sentinel::RedisSentinel;
use leasehold_tests::harness::server_table::{Leftover, leftovers_seen_by, locks};

/// A deployment.
pub enum Servers {
    /// One server.
    Single(Box<RedisServer>),
    /// A master, two replicas, three sentinels.
    Sentinel(RedisSentinel),
    /// Three masters with a replica each.
    Cluster(Box<RedisCluster>),
}

impl Servers {
    /// One server.
    pub fn single() -> Self {
        Self::Single(Box::new(RedisServer::start().expect("a server")))
    }

    /// Sentinels.
    pub fn sentinel() -> Self {
        Self::Sentinel(RedisSentinel::start().expect("sentinels"))
    }

    /// A cluster.
    pub fn cluster() -> Self {
        Self::Cluster(Box::new(RedisCluster::start().expect("a cluster")))
    }

    /// What a contender is told.
    pub fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Sentinel(sentinel) => sentinel.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// How many masters there are.
    pub fn masters(&self) -> usize {
        match self {
            Self::Single(_) | Self::Sentinel(_) => 1,
            Self::Cluster(cluster) => cluster.masters().expect("masters").len(),
        }
    }

    /// How many windows each master has given, by its port.
    pub fn grants_by_master(&self, windows: &[Window]) -> BTreeMap<u16, usize> {
        let mut masters = BTreeMap::new();
        let mut grants = BTreeMap::new();
        for window in windows {
            let master = *masters.entry(&window.key).or_insert_with(|| self.master_of(&window.key));
            *grants.entry(master).or_default() += 1;
        }
        grants
    }

    fn master_of(&self, key: &str) -> u16 {
        match self {
            Self::Single(server) => server.port(),
            Self::Sentinel(sentinel) => sentinel.master_port().expect("a master"),
            Self::Cluster(cluster) => {
                let slot = cluster.slot_of(key).expect("a slot");
                cluster.master_of(slot).expect("a master").port()
            }
        }
    }

    /// S5, L6: nothing is held by nobody, and soon nothing is left at all, on replicas neither.
    pub fn assert_nothing_left(&self) {
        for mut client in self.clients().expect("connections") {
            let locks = locks(&mut client).expect("the locks");
            assert_eq!(held_by_nobody(&locks, &HashSet::new()), []);
            let nothing =
                || leftovers_seen_by(&mut client).is_ok_and(|left| left.iter().all(is_the_sentinels));
            assert!(holds_within(Duration::from_secs(10), nothing), "{:?}", leftovers_seen_by(&mut client));
        }
    }

    fn clients(&self) -> io::Result<Vec<RawClient>> {
        let of = |nodes: &[Arc<Node>]| nodes.iter().map(|node| node.client()).collect();
        match self {
            Self::Single(server) => Ok(vec![server.client()?]),
            Self::Sentinel(sentinel) => of(sentinel.servers()),
            Self::Cluster(cluster) => of(&cluster.nodes()),
        }
    }
}

fn is_the_sentinels(left: &Leftover) -> bool {
    matches!(left, Leftover::Channel(name) if name == "__sentinel__:hello")
}
