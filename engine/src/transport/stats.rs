use crate::routing::topology::NodeId;

/// What only a lane knows about its servers. Read only when the metrics are read, so it costs nothing in between. The
/// engine decides nothing by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// The number of requests that were redirected because another node serves the slot now, since the lane was opened.
    pub moved: u64,
    /// The number of requests that were redirected only once, because their key is moving to another node.
    pub asked: u64,
    /// The nodes whose clocks were read recently.
    pub clocks: Vec<ClockReading>,
}

/// The difference between one node's clock and the lane's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReading {
    /// The node that has the clock.
    pub node: NodeId,
    /// How many microseconds the node's clock is ahead of the lane's clock. The estimate is rather too small, by at
    /// most the travel time of a reply.
    pub ahead_micros: i64,
}

impl ClockReading {
    /// The clock of `node` is at least this much ahead of the lane's.
    pub fn new(node: NodeId, ahead_micros: i64) -> Self {
        Self { node, ahead_micros }
    }
}
