//! The topology as one lane publishes it: the map that all lanes share, with what this lane knows of each node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::routing::topology::{Batching, ClockId, Node as NodeState, NodeId, SlotRange, Topology};
use tokio::sync::watch;

use crate::routing::{Server, atlas::Map};

/// Draws the topology anew with every change.
#[derive(Default)]
pub(crate) struct Board {
    drawn: Mutex<Drawn>,
    topology: watch::Sender<Arc<Topology>>,
}

#[derive(Default)]
struct Drawn {
    version: u64,
    nodes: BTreeMap<NodeId, NodeState>,
    ranges: Vec<SlotRange>,
}

impl Board {
    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    /// Another map: new nodes are not connected yet.
    pub(crate) fn draw_map(&self, map: &Map) {
        let mut drawn = self.lock();
        let mut before = std::mem::take(&mut drawn.nodes);
        let node = |server: &Arc<Server>| before.remove(&server.id).unwrap_or_else(|| unconnected(server));
        drawn.nodes = map.servers.iter().map(node).map(|node| (node.id, node)).collect();
        drawn.ranges.clone_from(&map.ranges);
        self.publish(&mut drawn);
    }

    /// A node of the map has a connection.
    pub(crate) fn draw_connected(&self, node: NodeState) {
        let mut drawn = self.lock();
        if let Some(drawn_node) = drawn.nodes.get_mut(&node.id) {
            *drawn_node = node;
            self.publish(&mut drawn);
        }
    }

    /// A node takes batches in this way.
    pub(crate) fn draw_batching(&self, id: NodeId, batching: Batching) {
        let mut drawn = self.lock();
        let differs = |node: &&mut NodeState| node.connected && node.batching != batching;
        if let Some(node) = drawn.nodes.get_mut(&id).filter(differs) {
            node.batching = batching;
            self.publish(&mut drawn);
        }
    }

    /// A node has lost its connection.
    pub(crate) fn draw_disconnected(&self, id: NodeId) {
        let mut drawn = self.lock();
        if let Some(node) = drawn.nodes.get_mut(&id) {
            node.connected = false;
            self.publish(&mut drawn);
        }
    }

    // Under the lock, so that no older drawing replaces a newer one.
    fn publish(&self, drawn: &mut Drawn) {
        drawn.version += 1;
        let nodes = drawn.nodes.values().cloned().collect();
        self.topology.send_replace(Arc::new(Topology::new(drawn.version, nodes, drawn.ranges.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unconnected(server: &Arc<Server>) -> NodeState {
    NodeState {
        id: server.id,
        address: server.name.to_string(),
        clock: ClockId { node: server.id, epoch: server.epoch() },
        up_since: None,
        connected: false,
        batch_leases_max: server.config().batch_leases_max,
        batching: Batching::AcrossSlots,
    }
}
