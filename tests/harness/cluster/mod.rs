//! A Redis Cluster of one test on loopback: masters, replicas, and what happens to them.
//!
//! ```no_run
//! use leasehold_tests::harness::cluster::{Failover, RedisCluster};
//!
//! let cluster = RedisCluster::start()?; // 3 masters, 3 replicas
//! let old = cluster.master_of(42)?;
//! cluster.replica_of(42)?.command(&["CLUSTER", "FAILOVER"])?;
//! let new = cluster.wait_for_promotion(42, old.port())?;
//! cluster.wait_until_whole()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! With [`RedisClusterBuilder::proxied`] every node announces the port of a proxy of its own: clients reach it through
//! that proxy alone, also after redirects and failovers, while the harness asks past it. The bus between the nodes does
//! not pass a proxy; replication does, and is never struck by a fault.

mod builder;
mod changes;
mod formation;
mod migration;
mod view;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use builder::RedisClusterBuilder;
pub use changes::{Failover, Reset};
pub use formation::SLOTS;
pub use migration::SlotMigration;
pub use view::{Member, View};

use crate::harness::node::{Node, locked};
use crate::harness::polling::found_within;

/// A running cluster. Dropping it kills and reaps every node.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Mutex<Vec<Arc<Node>>>,
    recipe: RedisClusterBuilder,
}

impl RedisCluster {
    /// Three masters with a replica each, all agreeing when this returns (about 3 s).
    ///
    /// # Errors
    /// When a node does not start or they do not agree.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// A cluster with other settings.
    pub fn builder() -> RedisClusterBuilder {
        RedisClusterBuilder::default()
    }

    /// Every node, also stopped and dead ones: the first masters, their replicas, then those added.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        locked(&self.nodes).clone()
    }

    /// The announced port of every node.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes().iter().map(|node| node.port()).collect()
    }

    /// `127.0.0.1:<port>` of every node.
    pub fn addresses(&self) -> Vec<String> {
        self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// `redis-cluster://127.0.0.1:<port>?node=...`, as fred spells it; `rediss-` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.nodes()[0].speaks_tls() { "rediss-cluster" } else { "redis-cluster" };
        let addresses = self.addresses();
        let others: Vec<String> = addresses[1..].iter().map(|address| format!("node={address}")).collect();
        format!("{scheme}://{}?{}", addresses[0], others.join("&"))
    }

    /// The node with this announced port.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, port: u16) -> io::Result<Arc<Node>> {
        let found = self.nodes().into_iter().find(|node| node.port() == port);
        found.ok_or_else(|| io::Error::other(format!("no node of this cluster announces port {port}")))
    }

    /// The slot of a key, as a running node says.
    ///
    /// # Errors
    /// When none answers.
    pub fn slot_of(&self, key: &str) -> io::Result<u16> {
        let running = self.running();
        let node = running.first().ok_or_else(|| io::Error::other("no node runs"))?;
        let slot = node.done(&["CLUSTER", "KEYSLOT", key])?.integer();
        slot.and_then(|slot| slot.try_into().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The running node that calls itself master of the slot; of two, the one with the higher epoch.
    ///
    /// # Errors
    /// When there is none.
    pub fn master_of(&self, slot: u16) -> io::Result<Arc<Node>> {
        let claims = self.running().into_iter().filter_map(|node| Some((claim(&node, slot)?, node)));
        let best = claims.max_by_key(|(epoch, _)| *epoch);
        best.map(|(_, node)| node).ok_or_else(|| io::Error::other(format!("nobody has slot {slot}")))
    }

    /// A running replica of that master.
    ///
    /// # Errors
    /// When there is none.
    pub fn replica_of(&self, slot: u16) -> io::Result<Arc<Node>> {
        let replicas = self.replicas_of(&*self.master_of(slot)?)?;
        replicas.into_iter().next().ok_or_else(|| io::Error::other(format!("slot {slot} has no replica")))
    }

    /// The running replicas of a running master, as it sees them.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn replicas_of(&self, master: &Node) -> io::Result<Vec<Arc<Node>>> {
        let view = View::of(master)?;
        let id = view.myself().map(|member| member.id.clone());
        let ports: Vec<u16> =
            view.0.iter().filter(|member| member.master_id == id).map(|member| member.port).collect();
        Ok(self.running().into_iter().filter(|node| ports.contains(&node.port())).collect())
    }

    /// The running masters that own slots, in the order of their first slots.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn masters(&self) -> io::Result<Vec<Arc<Node>>> {
        let own = |node: &Arc<Node>| {
            let view = View::of(node).ok()?;
            let myself = view.myself().filter(|member| member.is_master())?;
            myself.slots.first().map(|first| first.0)
        };
        let mut masters: Vec<_> =
            self.running().into_iter().filter_map(|node| Some((own(&node)?, node))).collect();
        masters.sort_by_key(|(first, _)| *first);
        Ok(masters.into_iter().map(|(_, node)| node).collect())
    }

    /// Waits until another node than the one with this announced port is master of the slot and serves it.
    ///
    /// The others may not have heard of it yet: [`Self::wait_until_whole`].
    ///
    /// # Errors
    /// When that does not happen in time.
    pub fn wait_for_promotion(&self, slot: u16, not: u16) -> io::Result<Arc<Node>> {
        let promoted = || self.master_of(slot).ok().filter(|node| node.port() != not && serves(node));
        found_within(PROMOTED_WITHIN, promoted)
            .ok_or_else(|| io::Error::other(format!("nobody took slot {slot} from {not}")))
    }

    /// Waits until every running node says the cluster is ok, all agree about the slots, and every replica is linked.
    ///
    /// # Errors
    /// When that does not happen in time, with the last reason.
    pub fn wait_until_whole(&self) -> io::Result<()> {
        let mut last = String::new();
        let whole = || match formation::disagreement(&self.running()) {
            Ok(None) => Some(()),
            Ok(Some(why)) => keep(&mut last, why),
            Err(error) => keep(&mut last, error.to_string()),
        };
        let found = found_within(formation::AGREED_WITHIN, whole);
        found.ok_or_else(|| io::Error::other(format!("the cluster did not get whole: {last}")))
    }

    fn running(&self) -> Vec<Arc<Node>> {
        self.nodes().into_iter().filter(|node| node.runs()).collect()
    }
}

fn keep(last: &mut String, why: String) -> Option<()> {
    *last = why;
    None
}

/// The epoch of the node's own claim to the slot.
fn claim(node: &Node, slot: u16) -> Option<u64> {
    let view = View::of(node).ok()?;
    let myself = view.myself().filter(|member| member.is_master() && member.owns(slot))?;
    Some(myself.config_epoch)
}

fn serves(node: &Node) -> bool {
    let info = node.done(&["CLUSTER", "INFO"]).ok().and_then(|info| info.text());
    info.is_some_and(|info| info.contains("cluster_state:ok"))
}

/// A failover takes a node timeout and a second; a machine that compiles on all cores needs more.
const PROMOTED_WITHIN: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests;
