//! What an operator does to a cluster: failovers, nodes that come, go and move.

use std::io;
use std::sync::Arc;

use super::RedisCluster;
use super::formation::{self, AGREED_WITHIN};
use super::view::View;
use crate::harness::node::{Node, locked};
use crate::harness::polling::holds_within;

/// How a replica is promoted by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// The master stops writing, the replica catches up, then takes over: nothing is lost.
    Plain,
    /// Without the master, with the votes of the other masters.
    Force,
    /// Without asking anybody.
    Takeover,
}

/// What a node forgets when it is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The other nodes and its slots.
    Soft,
    /// Its id and epochs, too.
    Hard,
}

impl RedisCluster {
    /// Asks a replica to take over. It does so a little later: [`Self::wait_for_promotion`].
    ///
    /// # Errors
    /// When it refuses, as a master does.
    pub fn failover(&self, replica: &Node, how: Failover) -> io::Result<()> {
        let command = match how {
            Failover::Plain => vec!["CLUSTER", "FAILOVER"],
            Failover::Force => vec!["CLUSTER", "FAILOVER", "FORCE"],
            Failover::Takeover => vec!["CLUSTER", "FAILOVER", "TAKEOVER"],
        };
        replica.done(&command).map(drop)
    }

    /// Starts another node, an empty master that all running nodes know.
    ///
    /// # Errors
    /// When it does not start or join.
    pub fn add_node(&self) -> io::Result<Arc<Node>> {
        let node = self.recipe.start_node()?;
        self.running().iter().try_for_each(|other| formation::meet(&node, other))?;
        locked(&self.nodes).push(node.clone());
        self.wait_until_whole()?;
        Ok(node)
    }

    /// Makes a node a replica of that master and waits until it is linked.
    ///
    /// # Errors
    /// When it owns slots or keys, or is not linked in time.
    pub fn replicate(&self, replica: &Node, master: &Node) -> io::Result<()> {
        formation::replicate(replica, master)?;
        self.wait_until_whole()
    }

    /// Makes all others forget a node, running or dead, ends it, and takes it out of [`Self::nodes`].
    ///
    /// # Errors
    /// When it is the master of one of them, or they keep it.
    pub fn forget_node(&self, gone: &Node) -> io::Result<()> {
        locked(&self.nodes).retain(|node| node.own_port() != gone.own_port());
        let others = self.running();
        let views = others.iter().map(|node| View::of(node)).collect::<io::Result<Vec<_>>>()?;
        let id = views.iter().find_map(|view| view.at_port(gone.port())).map(|member| member.id.clone());
        let id = id.ok_or_else(|| io::Error::other(format!("nobody knows {}", gone.port())))?;
        for node in &others {
            node.done(&["CLUSTER", "FORGET", &id])?;
        }
        let knows =
            |node: &Arc<Node>| View::of(node).is_ok_and(|view| view.0.iter().any(|member| member.id == id));
        // A node that nobody knows would go on replicating.
        gone.kill()?;
        match holds_within(AGREED_WITHIN, || !others.iter().any(knows)) {
            true => Ok(()),
            false => Err(io::Error::other(format!("{} is still known", gone.port()))),
        }
    }

    /// `CLUSTER RESET` of a replica: it is alone and empty. The others still know it until they meet another id there.
    ///
    /// # Errors
    /// When it is a master with keys.
    pub fn reset(&self, node: &Node, how: Reset) -> io::Result<()> {
        let how = match how {
            Reset::Soft => "SOFT",
            Reset::Hard => "HARD",
        };
        node.done(&["CLUSTER", "RESET", how]).map(drop)
    }

    /// Joins a node that was reset, as an empty master, and waits until all know it.
    ///
    /// # Errors
    /// When they do not.
    pub fn rejoin(&self, node: &Node) -> io::Result<()> {
        let others = self.running().into_iter().filter(|other| other.own_port() != node.own_port());
        others.into_iter().try_for_each(|other| formation::meet(node, &other))?;
        self.wait_until_whole()
    }

    /// Puts a new proxy in front of a node of a proxied cluster and announces its port: the node's address changes, and
    /// all others learn it. The earlier proxy goes on working. Returns the new port.
    ///
    /// # Errors
    /// When the node does not take it, or the others do not learn it.
    pub fn change_address(&self, node: &Node) -> io::Result<u16> {
        let port = node.add_proxy()?;
        let (option, value) = ("cluster-announce-port", port.to_string());
        node.done(&["CONFIG", "SET", option, &value])?;
        node.option_of_next_life("--cluster-announce-port", &value);
        self.wait_until_whole()?;
        Ok(port)
    }
}
