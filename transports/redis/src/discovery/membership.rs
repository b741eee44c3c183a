//! Whether a node that describes the cluster belongs to it. Pure.
//!
//! A node of another cluster may answer at an address that ours has used: addresses of pods are given out again. It
//! would take every slot. Nodes have ids, so its view counts only if the views before it have named its id. A cluster
//! that was built anew at the same addresses has new ids, and is believed once no node with a known id has described
//! the old one for a while.

use std::{collections::HashSet, time::Duration};

use leasehold::clock::Instant;

use crate::wire::cluster_nodes::Described;

/// The nodes of the cluster, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// Those that the last view of a member has named.
    ids: HashSet<String>,
    heard_at: Instant,
    strangers: HashSet<String>,
}

/// Who has described a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Member,
    /// A node of another cluster, met for the first time.
    NewStranger,
    Stranger,
}

impl Membership {
    /// A node has described the cluster.
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

/// Several rounds of questions to all nodes of a usual cluster, which are asked by turns.
const GONE_AFTER: Duration = Duration::from_secs(60);
const STRANGERS_MAX: usize = 100;
