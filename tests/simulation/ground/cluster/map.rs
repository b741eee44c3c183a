//! Who serves what, and what each node is like.

use std::collections::BTreeMap;

use leasehold::{
    routing::{
        slot::{SLOTS, Slot},
        topology::{Batching, ClockId, Node, NodeId, SlotRange, Topology},
    },
    transport::ServerTime,
};

use super::{PARTS, node_id, queue::Request};

pub struct Map {
    pub epoch: u64,
    /// Who answers for each part.
    pub answering: Vec<Option<u32>>,
    pub batching: Batching,
    pub batch_leases_max: usize,
    pub moved: u64,
    /// Acquires that came to each node.
    pub asks: BTreeMap<u32, u64>,
    pub batches: Vec<Vec<Slot>>,
    published: Vec<Option<u32>>,
    nodes: BTreeMap<u32, NodeState>,
    epochs: BTreeMap<u32, u32>,
}

struct NodeState {
    connected: bool,
    /// What waits while it stands still.
    waiting: Option<Vec<Request>>,
}

/// What a request meets.
pub enum Meets {
    Nobody,
    NoConnection(ClockId),
    StandsStill(ClockId),
    Answers(ClockId),
}

impl Map {
    pub fn new(nodes: u32) -> Self {
        let served: Vec<_> = (0..PARTS).map(|part| Some((part * nodes as usize / PARTS) as u32)).collect();
        let mut map = Self {
            epoch: 1,
            answering: served.clone(),
            batching: Batching::AcrossSlots,
            batch_leases_max: 100,
            moved: 0,
            asks: BTreeMap::new(),
            batches: Vec::new(),
            published: served,
            nodes: BTreeMap::new(),
            epochs: BTreeMap::new(),
        };
        (0..nodes).for_each(|node| map.add(node));
        map
    }

    pub fn topology(&self) -> Topology {
        let ranges = self.published.iter().enumerate();
        let ranges = ranges.filter_map(|(part, node)| Some(range(part, (*node)?))).collect();
        Topology::new(self.epoch, self.nodes.keys().map(|node| self.node(*node)).collect(), ranges)
    }

    pub fn parts_of(&self, node: u32) -> Vec<usize> {
        (0..PARTS).filter(|part| self.answering[*part] == Some(node)).collect()
    }

    pub fn nodes(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }

    pub fn heal(&mut self) {
        self.nodes.values_mut().for_each(|state| state.connected = true);
        self.published = self.answering.clone();
    }

    pub fn is_there(&self, node: u32) -> bool {
        self.nodes.contains_key(&node)
    }

    pub fn count_ask(&mut self, part: usize) {
        if let Some(node) = self.answering[part] {
            *self.asks.entry(node).or_default() += 1;
        }
    }

    pub fn serve(&mut self, part: usize, by: Option<u32>) {
        (self.answering[part], self.published[part]) = (by, by);
    }

    pub fn add(&mut self, node: u32) {
        *self.epochs.entry(node).or_default() += 1;
        self.nodes.insert(node, NodeState { connected: true, waiting: None });
    }

    pub fn restart(&mut self, node: u32) {
        self.add(node);
    }

    pub fn remove(&mut self, node: u32) {
        self.nodes.remove(&node);
        let theirs = |served: &&mut Option<u32>| **served == Some(node);
        let tables = self.answering.iter_mut().chain(&mut self.published);
        tables.filter(theirs).for_each(|served| *served = None);
    }

    pub fn set_connected(&mut self, node: u32, connected: bool) {
        self.state(node).connected = connected;
    }

    pub fn hang(&mut self, node: u32) {
        self.state(node).waiting = Some(Vec::new());
    }

    pub fn wake(&mut self, node: u32) -> Vec<Request> {
        self.state(node).waiting.take().unwrap_or_default()
    }

    pub fn keep(&mut self, node: NodeId, request: Request) {
        if let Some(waiting) = &mut self.state(node.0).waiting {
            waiting.push(request);
        }
    }

    pub fn meets(&self, part: usize) -> Meets {
        self.answering[part].map_or(Meets::Nobody, |node| self.meets_node(node))
    }

    pub fn meets_node(&self, node: u32) -> Meets {
        match self.nodes.get(&node) {
            None => Meets::Nobody,
            Some(state) if !state.connected => Meets::NoConnection(self.clock(node)),
            Some(state) if state.waiting.is_some() => Meets::StandsStill(self.clock(node)),
            Some(_) => Meets::Answers(self.clock(node)),
        }
    }

    fn state(&mut self, node: u32) -> &mut NodeState {
        self.nodes.get_mut(&node).expect("a node that is there")
    }

    fn clock(&self, node: u32) -> ClockId {
        ClockId { node: node_id(node), epoch: self.epochs[&node] }
    }

    fn node(&self, node: u32) -> Node {
        Node {
            id: node_id(node),
            address: format!("node {node}"),
            clock: self.clock(node),
            up_since: None,
            connected: self.nodes[&node].connected,
            batch_leases_max: self.batch_leases_max,
            batching: self.batching,
        }
    }
}

/// The memory's time on the clock of the node that answers.
pub fn on_clock(at: ServerTime, clock: ClockId) -> ServerTime {
    let apart = u64::from(clock.node.0) * 3_600_000_000;
    ServerTime { micros: at.micros - apart, clock }
}

fn range(part: usize, node: u32) -> SlotRange {
    let slots = usize::from(SLOTS);
    let first = (part * slots).div_ceil(PARTS);
    let last = ((part + 1) * slots).div_ceil(PARTS) - 1;
    let slot = |number: usize| Slot::from_number(number as u16).expect("a slot's number");
    SlotRange { first: slot(first), last: slot(last), node: node_id(node) }
}
