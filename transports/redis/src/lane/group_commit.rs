//! Acquires and releases of exclusive locks at one node: together in one command where the server answers that
//! correctly, and alone otherwise.

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use leasehold::{
    key::Family,
    routing::topology::NodeId,
    transport::{AnswerTo, AnswersTo, Call, HoldKind, Op, Outcome},
};

use super::nodes::Nodes;
use crate::connection::{Connection, ReadyGroup, Together};

/// Calls of one kind that are begun without a future.
struct Part {
    together: Vec<Call>,
    /// `None`: there are none that go together.
    ready: Option<ReadyGroup>,
    alone: Vec<Call>,
}

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

    /// Begins such calls without a future; see [`Lane::begin_many`](leasehold::transport::Lane::begin_many).
    pub(super) fn begin_group(
        self: &Arc<Self>,
        node: NodeId,
        calls: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        let connection = self.connection(node).ok().filter(|_| calls.iter().all(is_groupable));
        let Some(connection) = connection else { return Some((calls, answers_to)) };
        let (releases, acquires): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.op == Op::Release);
        let parts = [releases, acquires].map(|calls| self.part(&connection, calls));
        if !parts.iter().all(|part| part.may_begin(&connection)) {
            return Some((parts.into_iter().flat_map(Part::into_calls).collect(), answers_to));
        }
        for Part { together, ready, alone } in parts {
            if let Some(ready) = ready {
                self.check(&connection, &together);
                let (nodes, answers_to) = (self.clone(), answers_to.clone());
                connection.begin_together(together, ready, move |calls| nodes.give(calls, answers_to));
            }
            alone.into_iter().for_each(|call| self.begin_alone(call, answers_to.clone()));
        }
        None
    }

    // In a task, at times: no call waits for it.
    fn check(&self, connection: &Arc<Connection>, together: &[Call]) {
        let keys = connection.keys_to_check(together);
        if !keys.is_empty() {
            let (connection, until) = (connection.clone(), self.until());
            let ask = async move { connection.ask_for_runs(keys.iter().map(AsRef::as_ref), until).await };
            self.runtime().spawn(ask);
        }
    }

    fn part(&self, connection: &Arc<Connection>, calls: Vec<Call>) -> Part {
        let (mut together, mut alone) = self.split(connection, calls);
        if together.len() < TOGETHER_MIN {
            alone.append(&mut together);
        }
        let ready = connection.ready_together(&together);
        Part { together, ready, alone }
    }

    fn begin_alone(self: &Arc<Self>, call: Call, answers_to: AnswersTo) {
        let begun = call.clone();
        let answer_to = AnswerTo::new(move |outcome| answers_to.answer(vec![begun.answered(outcome)]));
        if let Some((call, answer_to)) = self.begin(call, answer_to) {
            let nodes = self.clone();
            self.runtime().spawn(async move { answer_to.answer(nodes.call_alone(&call).await.into()) });
        }
    }

    fn give(self: Arc<Self>, calls: Vec<Call>, answers_to: AnswersTo) {
        if !calls.iter().any(is_pending) {
            return answers_to.answer(calls); // the usual case
        }
        let (pending, answered): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_pending);
        answers_to.answer(answered);
        let runtime = self.runtime().clone();
        runtime.spawn(async move { answers_to.answer(self.call_each(pending).await) });
    }

    async fn call_alike(&self, node: NodeId, calls: Vec<Call>) -> Vec<Call> {
        let Ok(connection) = self.connection(node) else { return self.call_each(calls).await };
        let (mut together, alone) = self.split(&connection, calls);
        if together.len() < TOGETHER_MIN {
            return self.call_each_and_learn(&connection, [alone, together].concat()).await;
        }
        self.check(&connection, &together);
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

impl Part {
    // A call whose server is not known yet is made by a task, which asks for the server beside it.
    fn may_begin(&self, connection: &Connection) -> bool {
        let is_new = |call: &Call| connection.may_go_together(call) == Together::NotYet;
        (self.together.is_empty() || self.ready.is_some()) && !self.alone.iter().any(is_new)
    }

    fn into_calls(self) -> impl Iterator<Item = Call> {
        self.together.into_iter().chain(self.alone)
    }
}

fn is_pending(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Pending)
}

/// Below this number, a command for each lock costs the server less than one for all.
const TOGETHER_MIN: usize = 4;
/// Each call of a group has at least this part of the time that the others have.
const TIME_SHARE: u32 = 4;
