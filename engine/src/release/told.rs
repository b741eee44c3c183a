//! What became of a release that a caller waits for. Pure.

use std::fmt;

use crate::{
    clock::Instant,
    transport::{Outcome, TransportError},
};

/// The outcome of all sends of one release.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) reply: Result<Outcome, TransportError>,
    /// Whether an earlier send was not answered and may have been executed.
    pub(crate) unsure: bool,
    /// When the answer was received, or the caller's time was over.
    pub(crate) received: Instant,
}

/// The caller of a release that is sent again. It waits for one command timeout. Dropping it without an outcome means that
/// the engine has ended.
pub(crate) trait AwaitingCaller: fmt::Debug + Send {
    fn answer(self: Box<Self>, told: Told);
}

/// A caller that waits, and what its release has come to so far.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) caller: Box<dyn AwaitingCaller>,
    /// When the caller's time is over.
    pub(crate) until: Instant,
    pub(crate) last_error: TransportError,
    pub(crate) unsure: bool,
}

impl Awaited {
    /// A further send has no answer.
    pub(crate) fn note_error(&mut self, last_error: &TransportError) {
        self.unsure |= last_error.may_have_effect();
        self.last_error = last_error.clone();
    }

    /// A server has answered.
    pub(crate) fn answer(self, reply: Outcome, received: Instant) {
        let Self { caller, unsure, .. } = self;
        caller.answer(Told { reply: Ok(reply), unsure, received });
    }

    /// The caller's time is over, or no later send can succeed.
    pub(crate) fn give_up(self, received: Instant) {
        let Self { caller, unsure, last_error, .. } = self;
        caller.answer(Told { reply: Err(last_error), unsure, received });
    }
}
