//! A command that is not answered.

use std::sync::Arc;

use super::{
    call_queue::{End, Sent},
    dispatcher::Dispatcher,
};
use crate::{
    core::Core,
    routing::topology::NodeId,
    transport::{ErrorKind, Lane, Outcome},
};

/// A command that is not answered. Dropping it counts it as ended, and sends what may follow.
pub(super) struct Unanswered {
    dispatcher: Arc<Dispatcher>,
    pub(super) core: Arc<Core>,
    pub(super) lane: Arc<dyn Lane>,
    pub(super) node: NodeId,
    sent: Sent,
    end: End,
}

impl Unanswered {
    pub(super) fn new(
        dispatcher: &Arc<Dispatcher>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        (node, sent): (NodeId, Sent),
    ) -> Self {
        let (dispatcher, core, lane) = (dispatcher.clone(), core.clone(), lane.clone());
        Self { dispatcher, core, lane, node, sent, end: End::NotSent }
    }

    /// One of the calls in the command has this outcome. One answer is an answer to all.
    pub(super) fn note(&mut self, outcome: &Outcome) {
        self.end = self.end.max(end_of(outcome));
    }
}

fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Failed(error) if error.kind != ErrorKind::TimedOut => End::Refused,
        Outcome::Failed(error) if error.may_have_effect() => End::Unanswered,
        Outcome::Failed(_not_sent) => End::NotSent,
        _ => End::Replied,
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let now = self.core.clock.now();
        let mut state = self.dispatcher.state();
        if let Some(outbox) = state.outboxes.get(Some(self.node)) {
            let was_silent = outbox.calls.is_silent();
            outbox.calls.handle_end(self.sent, self.end, now);
            if was_silent != outbox.calls.is_silent() {
                self.dispatcher.note_silent(&state);
            }
        }
        drop(state);
        self.dispatcher.send_ready(&self.core, &self.lane, self.node);
    }
}
