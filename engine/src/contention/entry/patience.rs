//! Whose patience is at its end, and when the next one's will be.

use super::{Entry, Pace};
use crate::{
    clock::Instant,
    contention::caller::{Caller, Leaving, Patience, Refusal},
};

impl<S> Entry<S> {
    /// Callers whose wait is over, or who had no definite answer for too long; who only tries, as soon as a lease of ours
    /// holds the key out of jeopardy.
    pub(crate) fn take_overdue(&mut self, now: Instant, pace: &Pace) -> Vec<Leaving<S>> {
        if !self.may_give_up() {
            return Vec::new();
        }
        let (since, held_here) = (self.unclear_since(), self.is_surely_held_here(now));
        let trouble = self.unclear.as_ref().and_then(|unclear| unclear.trouble.as_deref().cloned());
        self.leave_where(|caller| {
            if unavailable_at(caller, since, pace).is_some_and(|moment| moment <= now) {
                return Some(Refusal::Unavailable(trouble.clone()));
            }
            match caller.patience {
                Patience::Try => held_here.then_some(Refusal::Held),
                Patience::Wait(until) => until.is_some_and(|until| until <= now).then_some(Refusal::TimedOut),
            }
        })
    }

    pub(super) fn leave_where(
        &mut self,
        refusal: impl FnMut(&Caller<S>) -> Option<Refusal>,
    ) -> Vec<Leaving<S>> {
        let leaving = self.callers.take_where(refusal);
        leaving.into_iter().map(|(caller, refusal)| Leaving { caller, refusal }).collect()
    }

    // Behind a lease of ours nobody waits for the server's word, except who only tries.
    fn unclear_since(&self) -> Option<Instant> {
        self.unclear.as_ref().filter(|_| self.local.is_none()).map(|unclear| unclear.since)
    }

    // Most entries have callers without limit and a server that answers: nobody need be looked at.
    fn may_give_up(&self) -> bool {
        self.callers.has_limits() || self.unclear.is_some()
    }

    pub(crate) fn next_give_up(&self, pace: &Pace) -> Option<Instant> {
        if !self.may_give_up() {
            return None;
        }
        let since = self.unclear_since();
        let give_up = |caller: &Caller<S>| {
            let wait = match caller.patience {
                Patience::Wait(until) => until,
                Patience::Try => None,
            };
            [wait, unavailable_at(caller, since, pace)].into_iter().flatten().min()
        };
        self.callers.iter().filter_map(give_up).min()
    }
}

fn unavailable_at<S>(caller: &Caller<S>, unclear_since: Option<Instant>, pace: &Pace) -> Option<Instant> {
    match (caller.patience, unclear_since) {
        (Patience::Try, _) => Some(caller.joined + pace.unavailable_after),
        (Patience::Wait(_), since) => since.map(|since| since.max(caller.joined) + pace.unavailable_after),
    }
}
