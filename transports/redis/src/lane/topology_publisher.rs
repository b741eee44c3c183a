//! The topology that one lane publishes: the routes that all lanes share, plus this lane's state of each node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::routing::topology::{Batching, ClockId, Node as NodeState, NodeId, SlotRange, Topology};
use tokio::sync::watch;

use crate::discovery::{Server, deployment::Routes};

/// Publishes a new topology after every change.
#[derive(Default)]
pub(crate) struct TopologyPublisher {
    published: Mutex<Published>,
    topology: watch::Sender<Arc<Topology>>,
}

#[derive(Default)]
struct Published {
    version: u64,
    nodes: BTreeMap<NodeId, NodeState>,
    ranges: Vec<SlotRange>,
}

impl TopologyPublisher {
    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    /// Takes over new routes. Servers that were not in the old ones start as not connected.
    pub(crate) fn set_routes(&self, routes: &Routes) {
        let mut published = self.lock();
        let mut before = std::mem::take(&mut published.nodes);
        let node = |server: &Arc<Server>| before.remove(&server.id).unwrap_or_else(|| unconnected(server));
        published.nodes = routes.servers.iter().map(node).map(|node| (node.id, node)).collect();
        published.ranges.clone_from(&routes.ranges);
        self.publish(&mut published);
    }

    /// Publishes that a node of the routes is connected.
    pub(crate) fn set_connected(&self, node: NodeState) {
        let mut published = self.lock();
        if let Some(drawn_node) = published.nodes.get_mut(&node.id) {
            *drawn_node = node;
            self.publish(&mut published);
        }
    }

    /// Publishes how a connected node takes batches of renewals.
    pub(crate) fn set_batching(&self, id: NodeId, batching: Batching) {
        let mut published = self.lock();
        let differs = |node: &&mut NodeState| node.connected && node.batching != batching;
        if let Some(node) = published.nodes.get_mut(&id).filter(differs) {
            node.batching = batching;
            self.publish(&mut published);
        }
    }

    /// Publishes that a node has lost its connection.
    pub(crate) fn set_disconnected(&self, id: NodeId) {
        let mut published = self.lock();
        if let Some(node) = published.nodes.get_mut(&id) {
            node.connected = false;
            self.publish(&mut published);
        }
    }

    // Called under the lock, so that an older topology never replaces a newer one.
    fn publish(&self, published: &mut Published) {
        published.version += 1;
        let nodes = published.nodes.values().cloned().collect();
        self.topology.send_replace(Arc::new(Topology::new(
            published.version,
            nodes,
            published.ranges.clone(),
        )));
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unconnected(server: &Arc<Server>) -> NodeState {
    let clock = ClockId { node: server.id, epoch: server.epoch() };
    NodeState::new(clock, server.name.to_string(), server.config().batch_leases_max)
}
