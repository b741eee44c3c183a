//! What waits in the sockets of a node that stands still.

use std::sync::Arc;

use leasehold::{
    key::LockKey,
    routing::topology::NodeId,
    transport::{Acquire, Lane, Release, Renewal},
};

use super::{Cluster, part_of};

/// A request that nobody waits for any more.
pub struct Request {
    pub node: NodeId,
    pub lane: Arc<dyn Lane>,
    pub key: Arc<LockKey>,
    pub what: What,
}

pub enum What {
    /// Of which nothing can come any more.
    Nothing,
    Acquire(Acquire),
    Release(Release),
    Renewal(Renewal),
}

impl Request {
    /// The memory executes when it is called, and refuses what is too late.
    pub fn execute(self, cluster: &Cluster) {
        let Self { node, lane, key, what } = self;
        if !cluster.map(|map| map.answering[part_of(&key)] == Some(node.0)) {
            return; // MOVED
        }
        match what {
            What::Nothing => {}
            What::Acquire(request) => drop(lane.acquire(request)),
            What::Release(request) => drop(lane.release(request)),
            What::Renewal(member) => drop(lane.renew(NodeId(0), vec![member])),
        }
    }
}
