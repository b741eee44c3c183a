//! What one node says of the cluster. Pure.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

use leasehold::routing::topology::NodeId;

/// The claims of one master, according to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotClaims {
    pub(crate) node: NodeId,
    pub(crate) epoch: u64,
    pub(crate) slots: Vec<RangeInclusive<u16>>,
}

/// The view of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeView {
    /// The node whose view this is.
    pub(crate) by: NodeId,
    /// All nodes that it knows, masters and replicas, including itself.
    pub(crate) known: HashSet<NodeId>,
    /// The nodes that a majority of masters has marked as failed, with their configuration epochs.
    pub(crate) failed: HashMap<NodeId, u64>,
    pub(crate) masters: Vec<SlotClaims>,
}
