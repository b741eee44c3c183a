//! What a server's answer means for an entry.

use std::time::Duration;

use super::{Cause, Entry, Pace, grants};
use crate::{
    acquire::{
        attempt::Attempt,
        caller::{Caller, Leaving, Patience, Refusal},
        clarity::{PAST_EXPIRY, backoff},
        fairness::takes_turns,
    },
    clock::Instant,
    lease::{shared::Granted, state, unanswered::UnansweredSends, unconfirmed_owner::UnconfirmedOwner},
    transport::{Effect, HoldKind, Outcome, Remaining, TransportError},
};

/// The result of an answer.
#[derive(Debug)]
pub(crate) struct Verdict<S> {
    /// The grant and its receivers. The first receiver decides the terms; the others share its scope.
    pub(crate) grant: Option<Grant<S>>,
    /// The callers that leave without the lock.
    pub(crate) leaving: Vec<Leaving<S>>,
    /// An owner that must be closed.
    pub(crate) closing: Option<UnconfirmedOwner>,
    /// Another client holds the lock without expiry; `true` only the first time that this entry sees it.
    pub(crate) no_expiry: bool,
}

/// A grant that has a receiver.
#[derive(Debug)]
pub(crate) struct Grant<S> {
    pub(crate) receiver: Caller<S>,
    pub(crate) sharers: Vec<Caller<S>>,
    pub(crate) granted: Granted,
    pub(crate) open: UnansweredSends,
    /// It is not handed off.
    pub(crate) stays: bool,
}

impl<S> Entry<S> {
    /// Handles the answer to the ask that was sent at `sent`. The driver has already checked the answer's clock: an
    /// answer of an older epoch arrives here as an unknown.
    pub(crate) fn handle_answer(
        &mut self,
        answer: Result<Outcome, TransportError>,
        sent: Instant,
        execute_by: Instant,
        now: Instant,
        pace: &Pace,
    ) -> Verdict<S> {
        let mut verdict = Verdict { grant: None, leaving: Vec::new(), closing: None, no_expiry: false };
        match answer {
            Ok(Outcome::Granted { token, at }) => {
                self.handle_clear();
                self.note_token(token, at);
                if let Some(attempt) = self.attempt.take() {
                    let granted = Granted {
                        owner: attempt.owner,
                        token,
                        sent,
                        execute_by,
                        received: now,
                        clock: at.clock,
                        reserved_tokens: attempt.reserved_tokens,
                    };
                    self.handle_granted(attempt, granted, now, &mut verdict);
                }
            }
            Ok(Outcome::Busy { remaining, .. }) => {
                self.handle_clear();
                self.asked = Some(self.asking);
                let asked = self.attempt.as_ref().map_or(HoldKind::Exclusive, |attempt| attempt.kind);
                self.handle_held(asked, remaining, now, pace, &mut verdict);
            }
            Ok(_too_late) => self.handle_too_late(now),
            Err(error) => {
                self.asked = Some(self.asking);
                self.handle_error(error, execute_by, now, &mut verdict);
            }
        }
        verdict
    }

    fn handle_granted(&mut self, attempt: Attempt, granted: Granted, now: Instant, verdict: &mut Verdict<S>) {
        (self.last_held, self.spin_pause) = (None, Default::default());
        // There may be permits for the next caller too.
        let cause = if is_permits(attempt.kind) { Cause::Turn } else { Cause::Retry };
        self.ask_next(now, cause);
        let in_time = now < state::deadline(granted.sent, attempt.ttl);
        let receiver = if in_time { self.callers.take_first(attempt.kind, attempt.ttl) } else { None };
        let Some(receiver) = receiver else {
            // No caller wants the grant, or it is too old to be of use.
            verdict.closing = Some(attempt.into_give_back(granted.execute_by));
            return;
        };
        if takes_turns(receiver.terms.kind) {
            self.fairness.handle_grant(now);
        }
        let sharers = self.take_sharers(&receiver);
        if !self.callers.head().is_some_and(|head| grants::are_compatible(head.terms.kind, attempt.kind)) {
            verdict.leaving = self.refuse_tries();
        }
        verdict.grant = Some(Grant { receiver, sharers, granted, open: attempt.open, stays: attempt.stays });
    }

    pub(super) fn take_sharers(&mut self, receiver: &Caller<S>) -> Vec<Caller<S>> {
        match receiver.scope {
            Some(scope) => self.callers.take_scope(scope),
            None if receiver.terms.kind == HoldKind::Read => self.callers.take_readers(receiver.terms),
            None => Vec::new(),
        }
    }

    fn handle_held(
        &mut self,
        asked: HoldKind,
        remaining: Remaining,
        now: Instant,
        pace: &Pace,
        verdict: &mut Verdict<S>,
    ) {
        (self.last_held, self.held_after) = (Some(asked), Some(self.callers.came()));
        // While a lease of this engine holds the lock, "held" speaks of that lease.
        if takes_turns(asked) && !self.is_excluded_here() {
            self.fairness.handle_held(now);
        }
        verdict.closing = self.attempt.take().and_then(Attempt::into_closing);
        verdict.leaving = self.refuse_tries_after(asked);
        verdict.no_expiry = remaining == Remaining::NoExpiry && !self.warned_no_expiry;
        self.warned_no_expiry |= remaining == Remaining::NoExpiry;
        match remaining {
            _ if self.head_spins() => self.poll_next(now, pace),
            Remaining::For(left) if left.saturating_add(PAST_EXPIRY) <= pace.safety_poll => {
                self.ask_next(now + left + PAST_EXPIRY, Cause::Expiry)
            }
            Remaining::For(_) | Remaining::NoExpiry | Remaining::NotKnown => {
                self.ask_next(now + pace.safety_poll, Cause::SafetyPoll)
            }
        }
        match self.follow_up.take() {
            Some(Cause::Notice) => self.follow_notice(now, pace),
            Some(cause) => self.ask_next(now, cause),
            None => {}
        }
    }

    // The first `TooLate` in a row is retried at once, because the time sample in that answer has corrected the clock
    // offset.
    fn handle_too_late(&mut self, now: Instant) {
        let delay = if self.failures == 0 { Duration::ZERO } else { backoff(self.failures) };
        self.failures += 1;
        self.ask_next(now + delay, Cause::Retry);
    }

    fn handle_error(
        &mut self,
        error: TransportError,
        execute_by: Instant,
        now: Instant,
        verdict: &mut Verdict<S>,
    ) {
        if let (Effect::Unknown { not_after }, Some(attempt)) = (error.effect, &mut self.attempt) {
            attempt.open.add(not_after, execute_by, attempt.ttl);
        }
        if error.kind.is_final() {
            self.unclear = None;
            let attempt = self.attempt.take();
            // The server may refuse one kind and grant another one: the token counter of a fenced lock may be spoilt.
            let refused = match &attempt {
                Some(attempt) => self.callers.take_kind(attempt.kind),
                None => self.depart_all(),
            };
            let leaving = |caller| Leaving { caller, refusal: Refusal::Failed(error.clone()) };
            verdict.leaving = refused.into_iter().map(leaving).collect();
            verdict.closing = attempt.and_then(Attempt::into_closing);
            if !self.callers.is_empty() {
                self.ask_next(now, Cause::Retry);
            }
            return;
        }
        self.ask_next(now + backoff(self.failures), Cause::Retry);
        self.failures += 1;
        if let Some(unclear) = &mut self.unclear {
            unclear.last_error = Some(Box::new(error));
        }
    }

    // A "held" to a writer says nothing to a reader at the head. The answer to that reader's ask will say what becomes of
    // those behind it.
    fn refuse_tries_after(&mut self, asked: HoldKind) -> Vec<Leaving<S>> {
        let speaks_to = |caller: &&Caller<S>| grants::is_closed_for(asked, caller.terms.kind);
        let only_tries = |caller: &&Caller<S>| caller.patience == Patience::Try;
        let mut refused = Vec::new();
        while let Some(id) = self.callers.head().filter(speaks_to).filter(only_tries).map(|head| head.id) {
            let head = self.callers.take(id);
            refused.extend(head.map(|caller| Leaving { caller, refusal: Refusal::Held }));
        }
        if self.callers.head().is_some_and(|head| speaks_to(&head)) {
            refused.extend(self.refuse_tries());
        }
        refused
    }

    pub(super) fn refuse_tries(&mut self) -> Vec<Leaving<S>> {
        let tries = self.callers.take_tries(|_| true);
        tries.into_iter().map(|caller| Leaving { caller, refusal: Refusal::Held }).collect()
    }
}

fn is_permits(kind: HoldKind) -> bool {
    matches!(kind, HoldKind::Permits(_))
}
