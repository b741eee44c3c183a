//! A call that waits to be sent, and where its answer goes.

use std::time::Duration;

use super::{call_queue::Timed, outbox::Routed};
use crate::{
    clock::Instant,
    routing::slot::Slot,
    transport::{AnswerTo, Call, HoldKind, Op, Outcome},
};

/// A call that waits to be sent.
#[derive(Debug)]
pub(super) struct UnsentCall {
    pub(super) call: Call,
    pub(super) answer_to: AnswerTo,
    /// When it began to wait.
    pub(super) put_at: Instant,
    /// From when its time counts: [`put_at`](Self::put_at) until it is sent.
    pub(super) counts_from: Instant,
    /// When its caller leaves, also if it was not sent until then.
    pub(super) leaves: Option<Instant>,
}

impl UnsentCall {
    /// `call` has the time that it may take from `put_at` on.
    pub(super) fn new(call: Call, put_at: Instant, leaves: Option<Instant>, answer_to: AnswerTo) -> Self {
        Self { call, answer_to, put_at, counts_from: put_at, leaves }
    }

    /// What is sent, and where the outcome goes.
    pub(super) fn into_parts(self) -> (Call, AnswerAfter) {
        (self.call, AnswerAfter { answer_to: self.answer_to, waited: self.counts_from - self.put_at })
    }
}

/// Where the outcome of a call goes that has waited while its node answered other calls.
#[derive(Debug)]
pub(super) struct AnswerAfter {
    answer_to: AnswerTo,
    waited: Duration,
}

impl AnswerAfter {
    pub(super) fn answer(self, outcome: Outcome) {
        self.answer_to.answer_queued(outcome, self.waited);
    }
}

impl Routed for UnsentCall {
    fn slot(&self) -> Slot {
        self.call.key.slot()
    }
}

impl Timed for UnsentCall {
    fn put_at(&self) -> Instant {
        self.put_at
    }

    fn time(&self) -> Duration {
        self.call.execute_by - self.counts_from
    }

    fn leaves(&self) -> Option<Instant> {
        self.leaves
    }

    fn start(&mut self, at: Instant) {
        self.call.execute_by = at + self.time();
        self.counts_from = at;
    }

    fn is_release(&self) -> bool {
        self.call.op == Op::Release
    }

    fn is_groupable(&self) -> bool {
        let is_exclusive = matches!(self.call.kind, HoldKind::Exclusive | HoldKind::Spin);
        is_exclusive && matches!(self.call.op, Op::Acquire { .. } | Op::Release)
    }
}
