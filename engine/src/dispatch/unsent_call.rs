//! A call that waits to be sent, and where its answer goes.

use super::{call_queue::Timed, outbox::Routed};
use crate::{
    clock::Instant,
    routing::slot::Slot,
    transport::{AnswerTo, Call, Op},
};

/// A call that waits to be sent.
#[derive(Debug)]
pub(super) struct UnsentCall {
    pub(super) call: Call,
    pub(super) answer_to: AnswerTo,
}

impl Routed for UnsentCall {
    fn slot(&self) -> Slot {
        self.call.key.slot()
    }
}

impl Timed for UnsentCall {
    fn ends(&self) -> Instant {
        self.call.execute_by
    }

    fn is_release(&self) -> bool {
        self.call.op == Op::Release
    }
}
