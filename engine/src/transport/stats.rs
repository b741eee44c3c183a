use crate::routing::topology::NodeId;

/// What only a lane knows of its servers: read when metrics are, so it costs nothing between. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// Requests that were followed to another node because the slot is served there now, since the lane was opened.
    pub moved: u64,
    /// Requests that were followed to another node for this once, because their key is on its way there.
    pub asked: u64,
    /// The nodes whose clocks were read lately.
    pub clocks: Vec<ClockReading>,
}

/// How one node's clock stands to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Whose it is.
    pub node: NodeId,
    /// How many microseconds it is ahead of the lane's clock, rather too few: by the way back of a reply at most.
    pub ahead_micros: i64,
}
