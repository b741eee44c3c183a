//! Acquires and releases of exclusive locks at one node: together in one command where the server answers that
//! correctly, and alone otherwise.

use std::collections::HashSet;

use futures_util::future::join_all;
use leasehold::{
    key::Family,
    routing::topology::NodeId,
    transport::{Call, HoldKind, Op, Outcome},
};

use super::nodes::Nodes;
use crate::connection::{Connection, Together};

/// Whether the call is one of those that go together: an acquire or a release of an exclusive lock.
pub(super) fn is_groupable(call: &Call) -> bool {
    let is_exclusive = matches!(call.kind, HoldKind::Exclusive | HoldKind::Spin);
    let is_groupable = matches!(call.op, Op::Acquire { .. } | Op::Release);
    is_exclusive && is_groupable && call.key.family() == Family::Exclusive
}

impl Nodes {
    /// Makes calls for which [`is_groupable`] holds. The releases are sent first.
    pub(super) async fn call_group(&self, node: NodeId, calls: Vec<Call>) -> Vec<Call> {
        let (releases, acquires): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.op == Op::Release);
        let releases = self.call_alike(node, releases);
        let acquires = self.call_alike(node, acquires);
        let (mut answered, acquires) = tokio::join!(releases, acquires);
        answered.extend(acquires);
        answered
    }

    async fn call_alike(&self, node: NodeId, calls: Vec<Call>) -> Vec<Call> {
        let Ok(connection) = self.connection(node) else { return self.call_each(calls).await };
        let (mut together, alone) = self.split(&connection, calls);
        if together.len() < TOGETHER_MIN {
            return self.call_each_and_learn(&connection, [alone, together].concat()).await;
        }
        let group = async {
            connection.call_together(&mut together).await;
            self.call_each_pending(together).await
        };
        let (mut answered, alone) = tokio::join!(group, self.call_each_and_learn(&connection, alone));
        answered.extend(alone);
        answered
    }

    // One acquire of each key goes together: the tokens of a key's grants must differ. A call with much less time than
    // another goes alone: a command has one latest execution time, and an answer is waited for until then.
    fn split(&self, connection: &Connection, calls: Vec<Call>) -> (Vec<Call>, Vec<Call>) {
        let mut names = HashSet::with_capacity(calls.len());
        let now = connection.now();
        let longest = calls.iter().map(|call| call.execute_by - now).max().unwrap_or_default();
        calls.into_iter().partition(|call| {
            let has_time = call.execute_by - now >= longest / TIME_SHARE;
            let may = connection.may_go_together(call) == Together::Yes && self.must_fit(&call.key).is_ok();
            has_time && may && (call.op == Op::Release || names.insert(call.key.clone()))
        })
    }

    pub(super) async fn call_each(&self, calls: Vec<Call>) -> Vec<Call> {
        let each = calls.into_iter().map(async |call| {
            let outcome = self.call_alone(&call).await.into();
            call.answered(outcome)
        });
        join_all(each).await
    }

    // Beside the calls themselves, the server is asked which run of it answers for their keys.
    async fn call_each_and_learn(&self, connection: &Connection, calls: Vec<Call>) -> Vec<Call> {
        let is_new = |call: &&Call| connection.may_go_together(call) == Together::NotYet;
        let keys: HashSet<_> = calls.iter().filter(is_new).map(|call| call.key.clone()).collect();
        let runs = connection.ask_for_runs(keys.iter().map(AsRef::as_ref), self.until());
        let (answered, ()) = tokio::join!(self.call_each(calls), runs);
        answered
    }

    async fn call_each_pending(&self, calls: Vec<Call>) -> Vec<Call> {
        if !calls.iter().any(is_pending) {
            return calls; // the usual case
        }
        let (pending, mut answered): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_pending);
        answered.extend(self.call_each(pending).await);
        answered
    }
}

fn is_pending(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Pending)
}

/// Below this number, a command for each lock costs the server less than one for all.
const TOGETHER_MIN: usize = 4;
/// Each call of a group has at least this part of the time that the others have.
const TIME_SHARE: u32 = 4;
