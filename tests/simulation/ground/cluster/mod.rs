//! Many nodes in paused time, over the memory transport. The slots are cut into [`PARTS`] parts of equal size, and each
//! part is a memory of its own: a part that is moved to another node takes its locks with it.
//!
//! Two tables say who serves a part: who *answers* for it, and who does as the *topology* says. A test may let the second
//! be behind the first: then the nodes pass each other's requests on (ASK), and refuse renewals (MOVED).
//!
//! Every node has a clock of its own, hours apart: who compares times of two nodes is found out.

mod lane;
mod map;
mod queue;

use std::sync::{Arc, Mutex};

use leasehold::{
    key::LockKey,
    routing::{
        slot::Slot,
        topology::{Batching, NodeId, Topology},
    },
    transport::{BoxFuture, Capabilities, Lane, OpenLane, Transport, TransportError},
};
use leasehold_memory::{MemoryTransport, Restart};
use tokio::sync::watch;

use lane::ClusterLane;
use map::Map;

/// Into how many parts the slots are cut.
pub const PARTS: usize = 12;

/// What a new master knows of the locks of the one that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Kept,
    Lost,
}

/// The nodes. Clones are the same.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

struct Shared {
    parts: Vec<MemoryTransport>,
    map: Mutex<Map>,
    topology: watch::Sender<Arc<Topology>>,
}

impl Cluster {
    /// So many nodes, from 0 on, that share the parts in even runs.
    pub fn new(nodes: u32) -> Self {
        let map = Map::new(nodes);
        Self(Arc::new(Shared {
            parts: (0..PARTS).map(|_| MemoryTransport::new()).collect(),
            topology: watch::Sender::new(Arc::new(map.topology())),
            map: Mutex::new(map),
        }))
    }

    /// Which parts the node serves.
    pub fn parts_of(&self, node: u32) -> Vec<usize> {
        self.map(|map| map.parts_of(node))
    }

    /// A migration: the part and its locks go to a node that is there.
    pub fn migrate(&self, part: usize, to: u32) {
        self.change(|map| map.serve(part, Some(to)));
    }

    /// The part and its locks are with another node already, and the topology does not say so yet.
    pub fn answer_elsewhere(&self, part: usize, by: u32) {
        self.map(|map| map.answering[part] = Some(by));
    }

    /// The node is not a master any more; nobody serves its parts.
    pub fn remove(&self, node: u32) {
        self.change(|map| map.remove(node));
    }

    /// A node without slots, in another run if it was there before.
    pub fn add(&self, node: u32) {
        self.change(|map| map.add(node));
    }

    /// Another run of the node, as everybody knows before it answers.
    pub fn restart(&self, node: u32, data: Data) {
        self.lose(&self.parts_of(node), data);
        self.change(|map| map.restart(node));
    }

    /// The part has a node again, with the locks or without.
    pub fn serve(&self, part: usize, by: u32, data: Data) {
        self.lose(&[part], data);
        self.change(|map| map.serve(part, Some(by)));
    }

    /// Another node, new or there, serves what the former one did, which is gone.
    pub fn fail_over(&self, from: u32, to: u32, data: Data) {
        let parts = self.parts_of(from);
        self.lose(&parts, data);
        self.change(|map| {
            map.remove(from);
            if !map.is_there(to) {
                map.add(to);
            }
            parts.iter().for_each(|part| map.serve(*part, Some(to)));
        });
    }

    /// Nothing reaches the node, and everybody knows.
    pub fn disconnect(&self, node: u32) {
        self.change(|map| map.set_connected(node, false));
    }

    /// It is reached again.
    pub fn connect(&self, node: u32) {
        self.change(|map| map.set_connected(node, true));
    }

    /// The node stands still: what it is sent waits in its sockets.
    pub fn hang(&self, node: u32) {
        self.map(|map| map.hang(node));
    }

    /// It goes on with what has waited: what came too late is not executed, and nothing of parts that are not its own.
    pub fn wake(&self, node: u32) {
        let waiting = self.map(|map| map.wake(node));
        waiting.into_iter().for_each(|request| request.execute(self));
    }

    /// Every node goes on, is connected, and answers for what the topology says.
    pub fn heal(&self) {
        self.nodes().into_iter().for_each(|node| self.wake(node));
        self.change(Map::heal);
    }

    /// The nodes that are there.
    pub fn nodes(&self) -> Vec<u32> {
        self.map(|map| map.nodes())
    }

    /// All nodes take batches like this.
    pub fn take_batches(&self, batching: Batching, leases_max: usize) {
        self.change(|map| (map.batching, map.batch_leases_max) = (batching, leases_max));
    }

    /// How many renewals were refused because their slot is served elsewhere.
    pub fn moved(&self) -> u64 {
        self.map(|map| map.moved)
    }

    /// The renewal batches so far: the slots of their members, in order.
    pub fn batches(&self) -> Vec<Vec<Slot>> {
        self.map(|map| map.batches.clone())
    }

    /// How many acquires the node was sent.
    pub fn asks(&self, node: u32) -> u64 {
        self.map(|map| map.asks.get(&node).copied().unwrap_or(0))
    }

    /// How many locks are kept.
    pub fn stored_holds(&self) -> usize {
        self.0.parts.iter().map(MemoryTransport::stored_holds).sum()
    }

    /// How many keys are watched.
    pub fn watched_keys(&self) -> usize {
        self.0.parts.iter().map(MemoryTransport::watched_keys).sum()
    }

    // Another server: whoever watches a key of the part may have missed something.
    fn lose(&self, parts: &[usize], data: Data) {
        let restart = match data {
            Data::Kept => Restart::DataKept,
            Data::Lost => Restart::DataLost,
        };
        parts.iter().for_each(|part| self.0.parts[*part].restart(restart));
    }

    fn change(&self, change: impl FnOnce(&mut Map)) {
        let topology = self.map(|map| {
            change(map);
            map.epoch += 1;
            map.topology()
        });
        self.0.topology.send_replace(Arc::new(topology));
    }

    fn map<T>(&self, work: impl FnOnce(&mut Map) -> T) -> T {
        work(&mut self.0.map.lock().expect("no panic under it"))
    }
}

impl Transport for Cluster {
    fn capabilities(&self) -> Capabilities {
        self.0.parts[0].capabilities()
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let cluster = self.clone();
        Box::pin(async move {
            let mut parts = Vec::new();
            for part in &cluster.0.parts {
                parts.push(part.open(open).await?);
            }
            Ok(Arc::new(ClusterLane::new(cluster, parts, open)) as Arc<dyn Lane>)
        })
    }
}

/// The part that a key lives in.
pub fn part_of(key: &LockKey) -> usize {
    key.slot().share(PARTS)
}

/// The n-th of the names whose locks live in this part.
pub fn name_in(part: usize, n: usize) -> String {
    let names = (0..).map(|number| format!("lock {number}"));
    names.filter(|name| slot_of(name).share(PARTS) == part).nth(n).expect("there is no end of names")
}

/// The part that this lock lives in.
pub fn part_of_name(name: &str) -> usize {
    slot_of(name).share(PARTS)
}

/// The slot of a lock's name.
fn slot_of(name: &str) -> Slot {
    Slot::of(name.as_bytes())
}

fn node_id(node: u32) -> NodeId {
    NodeId(node)
}
