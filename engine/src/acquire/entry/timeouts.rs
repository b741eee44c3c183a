//! The callers that leave by the clock, and when the next caller leaves.

use super::{Entry, Pace};
use crate::{
    acquire::caller::{Caller, Leaving, Refusal},
    clock::Instant,
    transport::TransportError,
};

impl<S> Entry<S> {
    /// Removes and returns three kinds of callers. First: callers whose wait has ended. Second: callers without a
    /// definite answer for `unavailable_after`. Third: callers that only try, as soon as a lease of this engine holds
    /// the key, is not in jeopardy and was confirmed lately.
    ///
    /// A caller whose wait has ended leaves once a fact is known that is true since it joined: the lock is held, or an
    /// ask that was sent for the caller got no definite answer. Until then the caller stays queued, for at most one
    /// command timeout.
    pub(crate) fn take_overdue(&mut self, now: Instant, pace: &Pace) -> Vec<Leaving<S>> {
        if self.callers.is_empty() {
            return Vec::new();
        }
        let mut leaving = self.take_unanswered(now, pace);
        if self.callers.has_tries() && self.is_head_surely_held_here(now) && !self.is_confirm_due(now, pace) {
            leaving.extend(self.refuse_tries());
        }
        if self.callers.may_have_ended(now) {
            leaving.extend(self.take_ended(now, pace));
        }
        leaving
    }

    fn take_unanswered(&mut self, now: Instant, pace: &Pace) -> Vec<Leaving<S>> {
        let is_over = |since: Instant| since + pace.unavailable_after <= now;
        let mut callers = self.callers.take_tries(is_over);
        if self.unclear_since().is_some_and(is_over) {
            callers.extend(self.callers.take_waits(is_over));
        }
        if callers.is_empty() {
            return Vec::new();
        }
        let refusal = |last_error| Refusal::Unavailable { after: pace.unavailable_after, last_error };
        callers.into_iter().map(|caller| Leaving { caller, refusal: refusal(self.last_error()) }).collect()
    }

    fn take_ended(&mut self, now: Instant, pace: &Pace) -> Vec<Leaving<S>> {
        let (is_held, asked) = (self.is_known_held_to_waiters(now), self.asked);
        let leaves = |coming| is_held || asked.is_some_and(|asked| coming <= asked);
        let ended = self.callers.take_ended(now, pace.command_timeout, leaves);
        let was_held = |coming| is_held || self.held_after.is_some_and(|held_after| coming <= held_after);
        let refusal = |coming, caller: &Caller<S>| match was_held(coming) {
            true => Refusal::TimedOut,
            false => Refusal::Unavailable { after: now - caller.joined, last_error: self.last_error() },
        };
        let leaving = |(coming, caller)| Leaving { refusal: refusal(coming, &caller), caller };
        ended.into_iter().map(leaving).collect()
    }

    // As for callers that only try. In addition a lease of this engine in jeopardy counts, because it is still held.
    fn is_known_held_to_waiters(&self, now: Instant) -> bool {
        let Some(head) = self.callers.head() else { return false };
        let is_held_here = self.is_excluded_here() && self.grants.iter().any(|held| held.lease.is_held(now));
        is_held_here || self.is_known_held(head.terms.kind, now)
    }

    // A caller behind the head gets the lock after the head, whatever its own kind is.
    fn is_head_surely_held_here(&self, now: Instant) -> bool {
        self.callers.head().is_some_and(|head| self.is_surely_held_here(head.terms.kind, now))
    }

    fn last_error(&self) -> Option<TransportError> {
        self.unclear.as_ref().and_then(|unclear| unclear.last_error.as_deref().cloned())
    }

    // While the head waits for the end of a lease of this engine, no caller waits for the server's answer, except
    // callers that only try.
    fn unclear_since(&self) -> Option<Instant> {
        self.unclear.as_ref().filter(|_| !self.is_excluded_here()).map(|unclear| unclear.since)
    }

    /// When the next caller may leave by the clock.
    pub(crate) fn next_give_up(&self, pace: &Pace) -> Option<Instant> {
        let end = self.callers.first_end();
        end.into_iter().chain(self.next_unanswered(pace)).min()
    }

    /// The same while an ask is in flight: a caller whose wait ends meanwhile stays for the answer to that ask.
    pub(super) fn next_give_up_in_flight(&self, pace: &Pace) -> Option<Instant> {
        self.callers.stayed_until().into_iter().chain(self.next_unanswered(pace)).min()
    }

    fn next_unanswered(&self, pace: &Pace) -> Option<Instant> {
        let unclear =
            self.unclear_since().zip(self.callers.first_wait()).map(|(since, came)| since.max(came));
        self.callers.first_try().into_iter().chain(unclear).min().map(|since| since + pace.unavailable_after)
    }
}
