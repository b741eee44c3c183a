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
    last_view_at: Instant,
    foreign: HashSet<String>,
}

/// The status of a node that has described a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Member,
    /// A node of another cluster, seen for the first time.
    NewForeign,
    Foreign,
}

impl Membership {
    /// Judges the node that has returned this view.
    pub(crate) fn judge(&mut self, view: &[Described], now: Instant) -> Origin {
        let Some(myself) = view.iter().find(|node| node.is_myself) else { return Origin::Member };
        let is_known = self.ids.is_empty() || self.ids.contains(&myself.id);
        if !is_known && now - self.last_view_at <= GONE_AFTER {
            return self.note_foreign(&myself.id);
        }
        self.ids = view.iter().map(|node| node.id.clone()).collect();
        self.last_view_at = now;
        self.foreign.clear();
        Origin::Member
    }

    fn note_foreign(&mut self, id: &str) -> Origin {
        if self.foreign.len() < FOREIGN_MAX && self.foreign.insert(id.to_owned()) {
            Origin::NewForeign
        } else {
            Origin::Foreign
        }
    }
}

/// Longer than several polls of all nodes of a usual cluster. Nodes are polled in rotation.
const GONE_AFTER: Duration = Duration::from_secs(60);
const FOREIGN_MAX: usize = 100;
