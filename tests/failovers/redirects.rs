//! How often servers have sent a request elsewhere, as they count it themselves, and as engines tell that they followed.

use std::ops::Sub;

use leasehold::Engine;
use leasehold_tests::{conservation::Numbers, harness::node::Node};

use crate::deployment::Deployment;

/// `INFO errorstats` of all servers, added up. No client but ours is ever sent elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirects {
    pub(crate) moved: u64,
    pub(crate) asked: u64,
    /// Of several keys, some are here and some are not.
    pub(crate) try_again: u64,
}

impl Redirects {
    pub(crate) fn told_by(deployment: &Deployment) -> Self {
        let nodes = deployment.nodes();
        let sum = |code| nodes.iter().filter(|node| node.runs()).map(|node| told(node, code)).sum();
        Self { moved: sum("MOVED"), asked: sum("ASK"), try_again: sum("TRYAGAIN") }
    }

    /// By the engines' metrics; subscriptions that were sent elsewhere are none of them.
    pub(crate) fn followed_by(engines: &[Engine]) -> Self {
        let numbers: Vec<_> = engines.iter().map(Numbers::of).collect();
        let told = |numbers: &Numbers, kind| {
            numbers.total("leasehold_backend_redirects_total", |labels| labels[1] == kind) as u64
        };
        let sum = |kind| numbers.iter().map(|numbers| told(numbers, kind)).sum();
        Self { moved: sum("moved"), asked: sum("ask"), try_again: 0 }
    }
}

impl Sub for Redirects {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            moved: self.moved - earlier.moved,
            asked: self.asked - earlier.asked,
            try_again: self.try_again - earlier.try_again,
        }
    }
}

/// `errorstat_ASK:count=12`
fn told(node: &Node, code: &str) -> u64 {
    let context = node.info("errorstats", &format!("errorstat_{code}")).expect("an answer");
    context.map_or(0, |context| context.strip_prefix("count=").expect("a count").parse().expect("a number"))
}
