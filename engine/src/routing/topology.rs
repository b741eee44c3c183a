//! The topology: which node serves which slot, as one value with an epoch. Pure. Transports publish it, the engine
//! reads it.

use std::{fmt, sync::Arc, time::Duration};

use super::slot::Slot;
use crate::clock::Instant;

/// A node (a primary server), numbered by its transport. The number of an address never changes during a lane's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Names the clock that a server time was read from: a node and its epoch.
///
/// A node's epoch rises with every run id or role that its transport sees for the first time on that node. Server times
/// with different `ClockId`s are never compared, and an answer of an older epoch proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockId {
    /// The node that answered.
    pub node: NodeId,
    /// The node's epoch at that time.
    pub epoch: u32,
}

/// What is known about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The node's number.
    pub id: NodeId,
    /// The node's address or another name that an operator recognises. Holds no secret.
    pub address: String,
    /// The node's present clock: node and epoch.
    pub clock: ClockId,
    /// Since when this run of the server has been up, rather too late than too early. `None`: not known.
    pub up_since: Option<UpSince>,
    /// The id of this run of the server, if the transport knows one: no other server, and no other run, has the same. A
    /// quorum refuses two members on one server by it.
    pub run_id: Option<Arc<str>>,
    /// Whether a checked connection to the node is open now. Also set for a node that serves no slot, but nothing
    /// depends on it there.
    pub connected: bool,
    /// How many leases one renewal batch may have.
    pub batch_leases_max: usize,
    /// How the node takes batches.
    pub batching: Batching,
    /// A round trip to the node that the transport has measured, without a queue. `None`: not known; the engine measures.
    pub round_trip: Option<Duration>,
}

/// How a node takes renewals of leases whose keys are in different slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Batching {
    /// One call, whatever the slots: as cheap as for one slot.
    #[default]
    AcrossSlots,
    /// One call per slot, as a cluster of Redis 6.2 requires. The engine still gives batches with many slots, and the
    /// transport splits them. But the leases of a slot become due in the same ticks and are adjacent in a batch, so
    /// that there is little to split.
    BySlot,
}

impl Node {
    /// The node whose clock this is. It is not connected, its uptime is not known, and it takes batches across slots;
    /// the fields change that.
    pub fn new(clock: ClockId, address: impl Into<String>, batch_leases_max: usize) -> Self {
        Self {
            id: clock.node,
            address: address.into(),
            clock,
            up_since: None,
            run_id: None,
            connected: false,
            batch_leases_max,
            batching: Batching::AcrossSlots,
            round_trip: None,
        }
    }

    /// How long this run of the server has been up at `now`, at least.
    pub fn uptime(&self, now: Instant) -> Option<Duration> {
        self.up_since.map(|since| since.uptime(now))
    }
}

/// Since when a server has been up. That moment may lie before the boot of this machine, where the engine's clock
/// cannot express it. So it is kept as an uptime and the moment at which the server reported that uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpSince {
    told_at: Instant,
    uptime: Duration,
}

impl UpSince {
    /// The server had been up for `uptime` at `told_at`.
    pub fn told(uptime: Duration, told_at: Instant) -> Self {
        Self { told_at, uptime }
    }

    /// How long the server has been up at `now`.
    pub fn uptime(self, now: Instant) -> Duration {
        self.uptime.saturating_add(now - self.told_at)
    }
}

/// The server came up at this moment of the engine's clock.
impl From<Instant> for UpSince {
    fn from(moment: Instant) -> Self {
        Self::told(Duration::ZERO, moment)
    }
}

/// The nodes and the slots that they serve.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Topology {
    epoch: u64,
    nodes: Vec<Node>,
    ranges: Vec<SlotRange>,
}

/// A range of slots and the node that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot of the range.
    pub first: Slot,
    /// The last slot of the range, included.
    pub last: Slot,
    /// The node that serves the range.
    pub node: NodeId,
}

impl Topology {
    /// A topology of one node that serves every slot.
    pub fn single(epoch: u64, node: Node) -> Self {
        let all = SlotRange { first: slot(0), last: slot(super::slot::SLOTS - 1), node: node.id };
        Self { epoch, nodes: vec![node], ranges: vec![all] }
    }

    /// Any mapping of slots to nodes. `ranges` must not overlap. A slot in no range has no node.
    pub fn new(epoch: u64, mut nodes: Vec<Node>, mut ranges: Vec<SlotRange>) -> Self {
        nodes.sort_by_key(|node| node.id);
        ranges.sort_by_key(|range| range.first);
        Self { epoch, nodes, ranges }
    }

    /// The topology's epoch. Rises with every change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All nodes, by their numbers. Some may serve no slot.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let place = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.nodes[place])
    }

    /// The node that serves `slot`.
    pub fn serving(&self, slot: Slot) -> Option<&Node> {
        let behind = self.ranges.partition_point(|range| range.first <= slot);
        let range = self.ranges[..behind].last()?;
        if slot <= range.last { self.node(range.node) } else { None }
    }

    /// Whether the node with this clock serves `slot`, in the run that the clock names.
    pub(crate) fn is_serving(&self, clock: ClockId, slot: Slot) -> bool {
        self.serving(slot).is_some_and(|node| node.clock == clock)
    }

    /// Whether every slot is served by a connected node. Nodes that serve no slot do not count.
    pub fn is_connected(&self) -> bool {
        let is_served = |range: &SlotRange| self.node(range.node).is_some_and(|node| node.connected);
        let mut next = 0;
        for range in self.ranges.iter().filter(|range| is_served(range)) {
            if range.first.number() != next {
                return false;
            }
            next = range.last.number() + 1;
        }
        next == super::slot::SLOTS
    }

    /// The clock of the node that serves the slot with this number, if any, and the last slot of the run for which that
    /// is so.
    pub(super) fn serving_run(&self, number: u16) -> (Option<ClockId>, u16) {
        let behind = self.ranges.partition_point(|range| range.first.number() <= number);
        let range = self.ranges[..behind].last().filter(|range| number <= range.last.number());
        let next = self.ranges.get(behind).map_or(super::slot::SLOTS, |range| range.first.number());
        match range {
            Some(range) => (self.node(range.node).map(|node| node.clock), range.last.number()),
            None => (None, next - 1),
        }
    }

    /// Whether `clock` is the present clock of its node: an answer that carries it came from the node's present epoch.
    pub fn is_current(&self, clock: ClockId) -> bool {
        self.node(clock.node).is_some_and(|node| node.clock == clock)
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology(epoch {}, {} nodes, {} ranges)", self.epoch, self.nodes.len(), self.ranges.len())
    }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).expect("a constant below 16384")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, epoch: u32) -> Node {
        let id = NodeId(id);
        let clock = ClockId { node: id, epoch };
        Node {
            id,
            address: format!("node-{}", id.0),
            clock,
            up_since: None,
            run_id: None,
            connected: true,
            batch_leases_max: 100,
            batching: Batching::AcrossSlots,
            round_trip: None,
        }
    }

    #[test]
    fn a_slot_in_no_range_has_no_node() {
        let ranges = vec![
            SlotRange { first: slot(100), last: slot(199), node: NodeId(1) },
            SlotRange { first: slot(0), last: slot(49), node: NodeId(0) },
        ];
        let topology = Topology::new(7, vec![node(0, 1), node(1, 1)], ranges);
        let served = |number| topology.serving(slot(number)).map(|node| node.id.0);
        assert_eq!(
            [served(0), served(49), served(50), served(100), served(200)],
            [Some(0), Some(0), None, Some(1), None]
        );
    }

    #[test]
    fn it_is_connected_if_every_slot_is_whatever_becomes_of_empty_nodes() {
        let range = |first, last, id| SlotRange { first: slot(first), last: slot(last), node: NodeId(id) };
        let halves = || vec![range(0, 8_191, 0), range(8_192, 16_383, 1)];
        let cut = |id| Node { connected: false, ..node(id, 1) };
        let is_connected = |nodes, ranges| Topology::new(1, nodes, ranges).is_connected();
        assert!(is_connected(vec![node(0, 1), node(1, 1), cut(2)], halves()));
        assert!(!is_connected(vec![node(0, 1), cut(1)], halves()));
        assert!(!is_connected(vec![node(0, 1)], halves()), "half of the slots have no node");
        assert!(!is_connected(vec![node(0, 1)], vec![range(1, 16_383, 0)]));
        assert!(!is_connected(vec![node(0, 1)], vec![range(0, 16_382, 0)]));
        assert!(!Topology::default().is_connected());
    }

    #[test]
    fn an_older_epoch_is_not_current() {
        let topology = Topology::single(1, node(3, 2));
        assert!(topology.is_current(ClockId { node: NodeId(3), epoch: 2 }));
        assert!(!topology.is_current(ClockId { node: NodeId(3), epoch: 1 }));
        assert!(!topology.is_current(ClockId { node: NodeId(4), epoch: 2 }));
    }
}
