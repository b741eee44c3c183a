//! One ask of a key: the call that is sent, and what its answer does.

use std::{sync::Arc, time::Duration};

use super::{
    delivery::{close, deliver, dismiss, install, warn_no_expiry},
    entry::{Ask, Cause, Verdict},
    table::Slot,
};
#[cfg(leasehold_fault)]
use crate::faults::{self, Fault};
use crate::{
    clock::Instant,
    dispatch::calls::{Begun, CallTimes},
    inner::Inner,
    key::LockKey,
    lease::unconfirmed_owner::UnconfirmedOwner,
    metrics::{self, AskAnswer, EngineEvent, LockEvent},
    transport::{Call, Op, Outcome, TransportError},
};

/// An ask that was sent, with its times.
#[derive(Clone, Copy)]
pub(super) struct SentAsk {
    pub(super) ask: Ask,
    pub(super) sent: Instant,
    execute_by: Instant,
}

/// What the answer to an ask has left to do.
pub(super) enum After {
    /// The entry has no caller and is not driven any more.
    AtRest,
    /// The entry's next step.
    Next,
    /// No caller took the grant. Its owner is released before the next ask, which would find the lock held by it.
    GiveBack(UnconfirmedOwner),
}

impl SentAsk {
    pub(super) fn new(inner: &Inner, ask: Ask, sent: Instant) -> Self {
        let execute_by = sent + inner.config.request_timeout(ask.ttl);
        #[cfg(leasehold_fault)]
        let execute_by = if Fault::LateDeadline.is_on() { sent + faults::PATIENCE } else { execute_by };
        Self { ask, sent, execute_by }
    }

    /// The same ask, which was sent this much later.
    pub(super) fn later(self, waited: Duration) -> Self {
        Self { sent: self.sent + waited, execute_by: self.execute_by + waited, ..self }
    }

    /// The times of its call.
    pub(super) fn times(&self) -> CallTimes {
        CallTimes { ready: self.sent, leaves: self.ask.leaves }
    }

    pub(super) fn call(&self, key: &Arc<LockKey>) -> Call {
        let Ask { kind, owner, reserved_tokens, .. } = self.ask;
        Call::new(key.clone(), kind, self.op(), owner, self.execute_by).with_reserved_tokens(reserved_tokens)
    }

    fn op(&self) -> Op {
        Op::Acquire { ttl: self.ask.ttl }
    }

    /// Checks the outcome: what it proves, and about which server.
    ///
    /// # Errors
    /// Why there is no definite answer.
    pub(super) fn check(
        &self,
        inner: &Arc<Inner>,
        outcome: Outcome,
        begun: Begun,
    ) -> Result<Outcome, TransportError> {
        let reply = outcome.definite(self.op())?;
        let Some(at) = reply.at() else { return Ok(reply) };
        if begun.is_sample() {
            let now = inner.clock.now();
            inner.dispatcher.note_round_trip(at.clock.node, now - self.sent, now);
        }
        drop(begun);
        inner.check_present(at)?;
        inner.dispatcher.handle_answer_of(&inner.core, at.clock.node);
        if let Outcome::Granted { .. } = reply {
            inner
                .check_restart_grace_of(at.clock.node, self.sent)
                .map_err(|refused| TransportError::unknown(refused.kind, at, refused.detail))?;
        }
        Ok(reply)
    }

    /// Takes in the answer: records it, answers the callers that it decides about, and closes what it leaves open.
    /// `noticed`: when the notice came that led to this ask.
    pub(super) fn handle_answer(
        &self,
        inner: &Arc<Inner>,
        key: &Arc<LockKey>,
        answer: Result<Outcome, TransportError>,
        noticed: Option<Instant>,
    ) -> After {
        let now = inner.clock.now();
        if answer.is_ok() {
            // Only answers count: a timeout would make every later fairness pause as long as the timeout.
            inner.note_round_trip(now - self.sent);
        }
        self.tell(inner, &answer, now - self.sent, noticed.map(|noticed| now - noticed));
        self.hand_out(inner, key, answer, now)
    }

    fn tell(
        &self,
        inner: &Inner,
        answer: &Result<Outcome, TransportError>,
        took: Duration,
        since_notice: Option<Duration>,
    ) {
        let answer = match answer {
            Ok(Outcome::Granted { .. }) => Ok(AskAnswer::Granted),
            Ok(Outcome::TooLate { .. }) => Ok(AskAnswer::TooLate),
            Ok(_busy) => Ok(AskAnswer::Held),
            Err(last_error) => Err(last_error),
        };
        let cause = self.ask.cause;
        let since_notice = since_notice.filter(|_| cause == Cause::Notice);
        let told = metrics::Ask { cause, took, answer, since_notice };
        inner.events.record_lock(self.ask.labels, LockEvent::Asked(told));
    }

    fn hand_out(
        &self,
        inner: &Arc<Inner>,
        key: &Arc<LockKey>,
        answer: Result<Outcome, TransportError>,
        now: Instant,
    ) -> After {
        let Self { sent, execute_by, .. } = *self;
        #[cfg(leasehold_fault)]
        let sent = if Fault::LateDeadline.is_on() { now } else { sent };
        let granted = matches!(answer, Ok(Outcome::Granted { .. }));
        let pace = inner.pace(key.slot());
        let (mut installed, mut rested) = (None, false);
        // The grant stays in there: it is large, and what is returned is copied several times.
        let (leaving, closing, no_expiry) = inner.table.with(key, |slot| {
            let verdict = slot.entry.handle_answer(answer, sent, execute_by, now, &pace);
            let Verdict { grant, leaving, closing, no_expiry } = verdict;
            installed = grant.map(|grant| install(key, slot, grant));
            rested = closing.is_none() && rest_if_unwanted(slot, now);
            (leaving, closing, no_expiry)
        });
        match installed {
            Some(installed) => deliver(inner, installed, self.ask.cause != Cause::Arrival),
            None if granted => inner.events.record_engine(EngineEvent::GrantWithoutCaller),
            None => {}
        }
        if no_expiry {
            warn_no_expiry(inner, key);
        }
        dismiss(inner, leaving);
        match closing {
            _ if rested => After::AtRest,
            Some(closing) if granted => After::GiveBack(closing),
            closing => {
                close(inner, key, closing);
                After::Next
            }
        }
    }
}

// Saves the driver a step, and a call without contention the driver.
fn rest_if_unwanted(slot: &mut Slot, now: Instant) -> bool {
    let rests = slot.entry.rest_if_unwanted(now);
    if rests {
        slot.handle_rest();
    }
    rests
}
