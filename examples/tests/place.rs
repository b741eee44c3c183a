//! Where two fleets meet: one server, sentinels or a cluster, with the file that says so. Seen as parts: a part is what
//! one master had at the start, and stays the same range of slots whoever has it later.

use std::{collections::BTreeSet, io, ops::Range, sync::Arc, time::Duration};

use leasehold::routing::slot::{SLOTS, Slot};
use leasehold_tests::harness::{
    cluster::{Failover, RedisCluster},
    node::Node,
    polling::{found_within, holds_within},
    raw_client::RawClient,
    recorder::boot_ns,
    redis_server::RedisServer,
    sentinel::RedisSentinel,
    server_table::locks,
};

use crate::config::{CLUSTER, FileFor, SENTINEL, SINGLE};

pub(crate) enum Place {
    Single(Box<RedisServer>),
    Sentinel(RedisSentinel),
    Cluster(Box<RedisCluster>),
}

/// What was done to the master of the first part, on the boot-time clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    pub(crate) at_ns: u64,
    /// When a client of no library could write to the part on another master, and knew that it is to.
    pub(crate) healed_ns: u64,
}

impl Place {
    pub(crate) fn single() -> Self {
        Self::Single(Box::new(RedisServer::start().expect("a server")))
    }

    /// Every write is on the disk before its answer.
    pub(crate) fn single_with_its_file() -> Self {
        Self::Single(Box::new(RedisServer::builder().append_only().start().expect("a server")))
    }

    /// A master, two replicas and three sentinels.
    pub(crate) fn sentinel() -> Self {
        Self::Sentinel(RedisSentinel::start().expect("sentinels"))
    }

    /// Three masters with a replica each. By default all refuse everything while one has failed and is not replaced.
    pub(crate) fn cluster() -> Self {
        let recipe =
            RedisCluster::builder().servers(|server| server.option("--cluster-require-full-coverage", "no"));
        Self::Cluster(Box::new(recipe.start().expect("a cluster")))
    }

    /// The ready file, with these ports.
    pub(crate) fn file(&self) -> FileFor {
        let with = |ready, from: u16, ports: Vec<u16>| {
            FileFor::ports(ready, &(from..).zip(ports).collect::<Vec<_>>())
        };
        match self {
            Self::Single(server) => with(SINGLE, 6379, vec![server.port()]),
            Self::Sentinel(sentinel) => {
                with(SENTINEL, 26379, sentinel.sentinels().iter().map(|node| node.port()).collect())
            }
            Self::Cluster(cluster) => with(CLUSTER, 7000, cluster.ports()),
        }
    }

    pub(crate) fn parts(&self) -> Range<usize> {
        match self {
            Self::Single(_) | Self::Sentinel(_) => 0..1,
            Self::Cluster(_) => 0..MASTERS,
        }
    }

    pub(crate) fn part_of(&self, name: &str) -> usize {
        let slot = usize::from(Slot::of(name.as_bytes()).number());
        let parts = self.parts();
        parts.clone().find(|part| slot < (part + 1) * usize::from(SLOTS) / parts.len()).expect("a slot")
    }

    /// kill -9. One server starts again; elsewhere a replica takes over.
    pub(crate) fn crash(&mut self) -> Strike {
        let at_ns = boot_ns();
        let Self::Single(server) = self else {
            let old = self.master();
            old.kill().expect("killed");
            return Strike { at_ns, healed_ns: self.healed(&old) };
        };
        server.kill().expect("killed");
        server.restart().expect("started again");
        Strike { at_ns, healed_ns: boot_ns() }
    }

    /// The lines in which the sentinels log a switch to another master, each switch once; none where there are no
    /// sentinels.
    pub(crate) fn switches(&self) -> Vec<String> {
        let Self::Sentinel(sentinel) = self else { return Vec::new() };
        let logs: Vec<String> = sentinel.sentinels().iter().map(|node| node.log()).collect();
        let lines = logs.iter().flat_map(|log| log.lines());
        let switches = lines.filter_map(|line| line.split_once("+switch-master ")).map(|(_, switch)| switch);
        switches.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// A replica takes over from the master, which is well.
    pub(crate) fn hand_over(&self) -> Strike {
        let (at_ns, old) = (boot_ns(), self.master());
        match self {
            Self::Single(_) => panic!("one server has no replica"),
            Self::Sentinel(sentinel) => {
                sentinel.failover().expect("it begins");
                // There are two masters before that, and for some seconds after it.
                sentinel.wait_for_switch(old.port()).expect("a switch");
            }
            Self::Cluster(cluster) => {
                let replica = cluster.replica_of(0).expect("a replica");
                cluster.failover(&replica, Failover::Plain).expect("it begins");
            }
        }
        Strike { at_ns, healed_ns: self.healed(&old) }
    }

    fn master(&self) -> Arc<Node> {
        match self {
            Self::Single(_) => panic!("one server is no node of several"),
            Self::Sentinel(sentinel) => sentinel.master().expect("a master"),
            Self::Cluster(cluster) => cluster.master_of(0).expect("a master"),
        }
    }

    /// L6, on all servers that run: released, or gone with its ttl.
    pub(crate) fn assert_no_lock_left(&self) {
        let clients = || match self {
            Self::Single(server) => vec![server.client()],
            _ => self.nodes().iter().filter(|node| node.runs()).map(|node| node.client()).collect(),
        };
        let locks_of = |client: io::Result<RawClient>| client.and_then(|mut client| locks(&mut client));
        let empty =
            || clients().into_iter().map(locks_of).all(|locks| locks.is_ok_and(|locks| locks.is_empty()));
        assert!(holds_within(EMPTY_WITHIN, empty), "a lock is left");
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::Single(_) => Vec::new(),
            Self::Sentinel(sentinel) => sentinel.servers().to_vec(),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn healed(&self, old: &Node) -> u64 {
        let mut nodes = self.nodes();
        nodes.retain(|node| node.own_port() != old.own_port());
        let key = (0..).map(|n| format!("raw-{n}")).find(|key| self.part_of(key) == 0).expect("a name");
        let write = ["SET", &key, "1", "PX", "1000"];
        let writes = |node: &Arc<Node>| node.command(&write).is_ok_and(|reply| reply.is_ok());
        let healed = || nodes.iter().any(writes).then(boot_ns);
        found_within(HEALED_WITHIN, healed).expect("another master within a minute")
    }
}

const MASTERS: usize = 3;
/// Above the longest ttl here.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);
const HEALED_WITHIN: Duration = Duration::from_secs(60);
