//! Decides whether a node that describes a cluster belongs to our cluster. Pure.
//!
//! A node of another cluster may answer at an address that our cluster has used, because addresses of pods are
//! reused. Its view would claim every slot. Each node has an id, so a view counts only if an earlier view has named
//! that id. A cluster that was built again at the same addresses has new ids. It is accepted once no node with a
//! known id has described the old cluster for `GONE_AFTER`.

use std::{collections::HashSet, time::Duration};

use leasehold::clock::Instant;

use crate::wire::cluster_nodes::Described;

/// The ids of the cluster's nodes.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// The ids in the last view by a member.
    ids: HashSet<String>,
    heard_at: Instant,
    strangers: HashSet<String>,
}

/// The status of a node that has described a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Member,
    /// A node of another cluster, seen for the first time.
    NewStranger,
    Stranger,
}

impl Membership {
    /// Judges the node that has returned this view.
    pub(crate) fn judge(&mut self, view: &[Described], now: Instant) -> Standing {
        let Some(myself) = view.iter().find(|node| node.is_myself) else { return Standing::Member };
        let is_known = self.ids.is_empty() || self.ids.contains(&myself.id);
        if !is_known && now - self.heard_at <= GONE_AFTER {
            return self.meet(&myself.id);
        }
        self.ids = view.iter().map(|node| node.id.clone()).collect();
        self.heard_at = now;
        self.strangers.clear();
        Standing::Member
    }

    fn meet(&mut self, id: &str) -> Standing {
        if self.strangers.len() < STRANGERS_MAX && self.strangers.insert(id.to_owned()) {
            Standing::NewStranger
        } else {
            Standing::Stranger
        }
    }
}

/// Longer than several polls of all nodes of a usual cluster. Nodes are polled in rotation.
const GONE_AFTER: Duration = Duration::from_secs(60);
const STRANGERS_MAX: usize = 100;
