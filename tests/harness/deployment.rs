//! Servers of any topology, for tests that are the same on each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::checkers::ServerLock;
use crate::harness::cluster::{Failover, RedisCluster};
use crate::harness::node::{Front, Node};
use crate::harness::polling::holds_within;
use crate::harness::port::free_port;
use crate::harness::proxy::SeenRequest;
use crate::harness::redis_server::{RedisServer, RedisServerBuilder};
use crate::harness::sentinel::RedisSentinel;
use crate::harness::server_table::{Leftover, leftovers_seen_by, locks};

/// How servers stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// One server.
    Single,
    /// A master, two replicas, three sentinels.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
}

/// Running servers, of which none is suspected for being silent a while. Dropping it kills and reaps them all.
#[derive(Debug)]
pub enum Deployment {
    /// One server.
    Single(Arc<Node>),
    /// Servers that sentinels watch.
    Sentinel(RedisSentinel),
    /// A cluster.
    Cluster(Box<RedisCluster>),
}

impl Deployment {
    /// All answer and agree when this returns.
    ///
    /// # Errors
    /// When a process does not start or they do not agree.
    pub fn start(topology: Topology) -> io::Result<Self> {
        Self::start_behind(topology, Front::Direct)
    }

    /// With a proxy in front of each data server, through which everybody goes but this harness.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_proxied(topology: Topology) -> io::Result<Self> {
        Self::start_behind(topology, Front::Proxied)
    }

    /// One server started in this way, with a proxy in front.
    ///
    /// # Errors
    /// When it does not start.
    pub fn single_proxied(recipe: &RedisServerBuilder) -> io::Result<Self> {
        Self::single(recipe, Front::Proxied)
    }

    fn single(recipe: &RedisServerBuilder, front: Front) -> io::Result<Self> {
        Node::start(recipe, front, free_port, |recipe, _| recipe).map(Self::Single)
    }

    fn start_behind(topology: Topology, front: Front) -> io::Result<Self> {
        let proxied = front == Front::Proxied;
        Ok(match topology {
            Topology::Single => Self::single(&RedisServer::builder(), front)?,
            Topology::Sentinel => {
                let builder = RedisSentinel::builder().down_after(CALM);
                Self::Sentinel(if proxied { builder.proxied() } else { builder }.start()?)
            }
            Topology::Cluster => {
                let builder = RedisCluster::builder().node_timeout(CALM);
                Self::Cluster(Box::new(if proxied { builder.proxied() } else { builder }.start()?))
            }
        })
    }

    /// Which kind it is.
    pub fn topology(&self) -> Topology {
        match self {
            Self::Single(_) => Topology::Single,
            Self::Sentinel(_) => Topology::Sentinel,
            Self::Cluster(_) => Topology::Cluster,
        }
    }

    /// `redis://`, `redis-sentinel://` or `redis-cluster://`, as fred spells it.
    pub fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Sentinel(sentinel) => sentinel.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// `127.0.0.1:<port>` of what a client is told: the server, the sentinels, or the nodes.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::Single(server) => vec![format!("127.0.0.1:{}", server.port())],
            Self::Sentinel(sentinel) => sentinel.sentinel_addresses(),
            Self::Cluster(cluster) => cluster.addresses(),
        }
    }

    /// All data servers, replicas and dead ones included.
    pub fn servers(&self) -> Vec<Arc<Node>> {
        match self {
            Self::Single(server) => vec![server.clone()],
            Self::Sentinel(sentinel) => sentinel.servers().to_vec(),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// [`Self::servers`], and the sentinels.
    pub fn everybody(&self) -> Vec<Arc<Node>> {
        let mut all = self.servers();
        if let Self::Sentinel(sentinel) = self {
            all.extend_from_slice(sentinel.sentinels());
        }
        all
    }

    /// The servers that locks are on.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn masters(&self) -> io::Result<Vec<Arc<Node>>> {
        match self {
            Self::Single(server) => Ok(vec![server.clone()]),
            Self::Sentinel(sentinel) => Ok(vec![sentinel.master()?]),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// The server that this key is on.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn master_of(&self, key: &str) -> io::Result<Arc<Node>> {
        match self {
            Self::Single(server) => Ok(server.clone()),
            Self::Sentinel(sentinel) => sentinel.master(),
            Self::Cluster(cluster) => cluster.master_of(cluster.slot_of(key)?),
        }
    }

    /// Has a replica take over from the well master that this key is on, as operators do, and waits until all agree.
    /// Returns the new master.
    ///
    /// # Errors
    /// When nobody takes over; a single server has nobody who could.
    pub fn fail_over(&self, key: &str) -> io::Result<Arc<Node>> {
        let old = self.master_of(key)?.port();
        match self {
            Self::Single(_) => Err(io::Error::other("a single server has no replica")),
            Self::Sentinel(sentinel) => {
                sentinel.failover()?;
                let new = sentinel.wait_for_switch(old)?;
                sentinel.wait_until_whole().map(|()| new)
            }
            Self::Cluster(cluster) => {
                let slot = cluster.slot_of(key)?;
                cluster.failover(&*cluster.replica_of(slot)?, Failover::Plain)?;
                let new = cluster.wait_for_promotion(slot, old)?;
                cluster.wait_until_whole().map(|()| new)
            }
        }
    }

    /// What the proxies have seen that fits, by time.
    pub fn requests(&self, fits: impl Fn(&SeenRequest) -> bool) -> Vec<SeenRequest> {
        let proxies = self.servers().into_iter().flat_map(|server| server.proxies());
        let mut requests: Vec<_> = proxies.flat_map(|proxy| proxy.requests_that(&fits)).collect();
        requests.sort_by_key(|request| request.at);
        requests
    }

    /// Every lock on every master.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn locks(&self) -> io::Result<Vec<ServerLock>> {
        let of_each = self.masters()?.into_iter().map(|master| locks(&mut master.client()?));
        Ok(of_each.collect::<io::Result<Vec<_>>>()?.concat())
    }

    /// Every key and channel on every master.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn leftovers(&self) -> io::Result<Vec<Leftover>> {
        let mut left = Vec::new();
        for master in self.masters()? {
            let on_it = leftovers_seen_by(&mut master.client()?)?;
            left.extend(on_it.into_iter().filter(|left| !is_the_sentinels_own(left)));
        }
        Ok(left)
    }

    /// Whether nothing is left on the masters at the latest after `within`.
    #[must_use]
    pub fn settles_empty(&self, within: Duration) -> bool {
        holds_within(within, || self.leftovers().is_ok_and(|left| left.is_empty()))
    }
}

/// A silent server is not suspected, however busy the machine: a failover happens when a test asks for it.
const CALM: Duration = Duration::from_secs(15);

// Sentinels meet on this channel of the servers they watch.
fn is_the_sentinels_own(left: &Leftover) -> bool {
    *left == Leftover::Channel("__sentinel__:hello".into())
}

/// What a test runs on.
///
/// # Panics
/// Without threads.
#[must_use]
pub fn two_workers() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// A test of each behaviour on each topology, with the topology in its name. A behaviour is an async function of a
/// [`Topology`]. One that fails on a machine that stood still is tried again
/// ([`unless_stalled`](crate::harness::stall::unless_stalled)).
#[macro_export]
macro_rules! on_every_topology {
    ($($behaviour:ident),+ $(,)?) => {
        mod single {
            $crate::on_one_topology!(Single: $($behaviour),+);
        }
        mod sentinel {
            $crate::on_one_topology!(Sentinel: $($behaviour),+);
        }
        mod cluster {
            $crate::on_one_topology!(Cluster: $($behaviour),+);
        }
    };
}

/// A part of [`on_every_topology!`].
#[doc(hidden)]
#[macro_export]
macro_rules! on_one_topology {
    ($topology:ident: $($behaviour:ident),+) => {
        $(#[test]
        fn $behaviour() {
            $crate::harness::stall::unless_stalled(|| {
                let behaviour = super::$behaviour($crate::harness::deployment::Topology::$topology);
                $crate::harness::deployment::two_workers().block_on(behaviour);
            });
        })+
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_server_is_a_deployment_too() {
        let deployment = Deployment::start_proxied(Topology::Single).expect("a server");
        let (server, master) = (&deployment.servers()[0], deployment.master_of("k").expect("a master"));
        assert_eq!(server.port(), master.port());
        assert!(deployment.url().ends_with(&deployment.addresses()[0]));
        assert!(deployment.settles_empty(Duration::ZERO));
        master.command(&["HSET", "k", "owner:1", "1"]).expect("a reply");
        assert_eq!(deployment.locks().expect("locks")[0].name, "k");
        assert_eq!(deployment.leftovers().expect("a table").len(), 1);
        assert!(deployment.requests(|_| true).is_empty(), "the harness goes past the proxy");
    }

    #[test]
    fn what_sentinels_leave_on_their_servers_is_not_left_over_and_they_fail_over_when_asked() {
        let deployment = Deployment::start(Topology::Sentinel).expect("sentinels");
        assert!(deployment.settles_empty(Duration::ZERO));
        let [old] = &deployment.masters().expect("a master")[..] else { panic!("one master") };
        let new = deployment.fail_over("k").expect("another master");
        assert_ne!(new.port(), old.port());
    }

    #[test]
    fn the_replica_of_a_keys_master_takes_over_when_asked() {
        let deployment = Deployment::start(Topology::Cluster).expect("a cluster");
        let (old, other) = (deployment.master_of("k"), deployment.master_of("b"));
        let new = deployment.fail_over("k").expect("another master");
        assert_ne!(new.port(), old.expect("a master").port());
        assert_eq!(deployment.master_of("k").expect("a master").port(), new.port());
        assert_eq!(deployment.master_of("b").expect("a master").port(), other.expect("a master").port());
    }
}
