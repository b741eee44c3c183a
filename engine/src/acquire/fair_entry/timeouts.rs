//! The callers of a fair lock that leave by the clock, and when the next caller leaves.

use super::{FairEntry, FairPace, HeldHere};
use crate::{
    acquire::{
        caller::{Caller, Leaving, Refusal},
        queue::Queue,
    },
    clock::Instant,
    transport::TransportError,
};

impl FairEntry {
    /// Removes and returns three kinds of callers. First: callers whose wait has ended. Second: callers without a
    /// definite answer for `unavailable_after`, to any ask or beat of the key or to those of their own place. Third:
    /// callers that only try, as soon as a lease of this engine surely holds the key, or a place of this engine is surely
    /// in the line: a caller that comes later cannot have the lock.
    ///
    /// A caller whose wait has ended leaves once a fact is known that is true since it joined: the lock was not free for
    /// it, or an ask that was sent since then got no definite answer. Until then the caller stays queued, for at most
    /// one command timeout.
    pub(crate) fn take_overdue<S>(
        &mut self,
        callers: &mut Queue<S>,
        held: HeldHere,
        now: Instant,
        pace: &FairPace,
    ) -> Vec<Leaving<S>> {
        let mut leaving = self.take_unanswered(callers, now, pace);
        if callers.has_tries() && (held.surely || self.is_surely_in_line(now)) {
            let tries = callers.take_tries(|_| true);
            leaving.extend(tries.into_iter().map(|caller| Leaving { caller, refusal: Refusal::Held }));
        }
        leaving.extend(self.take_ended(callers, held, now, pace));
        leaving
    }

    fn take_unanswered<S>(
        &mut self,
        callers: &mut Queue<S>,
        now: Instant,
        pace: &FairPace,
    ) -> Vec<Leaving<S>> {
        let is_over = |since: Instant| since + pace.unavailable_after <= now;
        let mut over = callers.take_tries(is_over);
        if self.unclear.as_ref().is_some_and(|unclear| is_over(unclear.since)) {
            over.extend(callers.take_waits(is_over));
        }
        let refusal = |last_error| Refusal::Unavailable { after: pace.unavailable_after, last_error };
        let of_key = over.into_iter().map(|caller| Leaving { caller, refusal: refusal(self.last_error()) });
        let mut leaving: Vec<_> = of_key.collect();
        leaving.extend(self.take_unclear(callers, now, pace));
        leaving
    }

    fn take_ended<S>(
        &self,
        callers: &mut Queue<S>,
        held: HeldHere,
        now: Instant,
        pace: &FairPace,
    ) -> Vec<Leaving<S>> {
        if callers.first_end().is_none_or(|end| now < end) && callers.stayed_until().is_none() {
            return Vec::new();
        }
        let is_held = held.held || self.is_surely_in_line(now);
        let leaves = |coming| is_held || self.asked.is_some_and(|asked| coming <= asked);
        let ended = callers.take_ended(now, pace.command_timeout, leaves);
        let was_held = |coming| is_held || self.held_after.is_some_and(|held_after| coming <= held_after);
        let refusal = |coming, caller: &Caller<S>| match was_held(coming) {
            true => Refusal::TimedOut,
            false => Refusal::Unavailable { after: now - caller.joined, last_error: self.last_error() },
        };
        let leaving = |(coming, caller)| Leaving { refusal: refusal(coming, &caller), caller };
        ended.into_iter().map(leaving).collect()
    }

    fn last_error(&self) -> Option<TransportError> {
        self.unclear.as_ref().and_then(|unclear| unclear.last_error.as_deref().cloned())
    }

    /// When the next caller may leave by the clock.
    pub(super) fn next_give_up<S>(&self, callers: &Queue<S>, pace: &FairPace) -> Option<Instant> {
        let unclear = self.unclear.as_ref().map(|unclear| unclear.since);
        let waits = unclear.zip(callers.first_wait()).map(|(since, came)| since.max(came));
        let unanswered = callers.first_try().into_iter().chain(waits).min();
        let unanswered = unanswered.map(|since| since + pace.unavailable_after);
        let unclear_place = self.first_unclear(pace).map(|(over, _)| over);
        [callers.first_end(), unanswered, unclear_place].into_iter().flatten().min()
    }
}
