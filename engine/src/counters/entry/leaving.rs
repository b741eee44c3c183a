//! The callers that leave by the clock: at their deadline, or because no definite answer comes. Pure.

use std::time::Duration;

use super::{
    Entry, Pace,
    flight::{Cargo, Flight},
    work::{Caller, Outcome, Work},
};
use crate::{clock::Instant, transport::CounterOp};

impl<R> Entry<R> {
    /// Dismisses the callers whose time is over at `now`.
    pub(crate) fn handle_time(&mut self, now: Instant, pace: &Pace) {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        self.dismiss_late(now, pace);
        if let Some(since) = self.unclear_since.filter(|since| *since + pace.unavailable_after <= now) {
            self.dismiss_unavailable(since, now, pace);
        }
    }

    /// When the next caller may leave by the clock.
    pub(crate) fn next_leave(&self, pace: &Pace) -> Option<Instant> {
        let deadline = self.waiting.first_deadline().map(|deadline| deadline + self.patience_left(pace));
        [deadline, self.next_unavailable(pace)].into_iter().flatten().min()
    }

    // A caller whose deadline has passed waits for the answer to its last look, unless nothing can be sent.
    fn patience_left(&self, pace: &Pace) -> Duration {
        if self.retry_at.is_some() { Duration::ZERO } else { pace.command_timeout }
    }

    fn next_unavailable(&self, pace: &Pace) -> Option<Instant> {
        let since = self.unclear_since?;
        let in_flight = match &self.flight {
            Some(Flight { cargo: Cargo::Write(write), .. }) => write.first_joined(),
            _ => None,
        };
        let first = [self.waiting.first_joined(), self.writes.first_joined(), in_flight]
            .into_iter()
            .flatten()
            .min()?;
        Some(first.max(since) + pace.unavailable_after)
    }

    fn dismiss_late(&mut self, now: Instant, pace: &Pace) {
        let limit = now.before(self.patience_left(pace));
        for id in self.waiting.due_by(limit).collect::<Vec<_>>() {
            if let Some(caller) = self.waiting.remove(id) {
                let outcome = self.late_outcome(&caller, now);
                self.leaving.push(caller.leave(outcome));
            }
        }
    }

    fn late_outcome(&self, caller: &Caller<R>, now: Instant) -> Outcome {
        match self.short_at.is_some_and(|short_at| short_at >= caller.joined) {
            true => Outcome::TimedOut,
            false => self.unavailable(now - caller.joined),
        }
    }

    fn dismiss_unavailable(&mut self, since: Instant, now: Instant, pace: &Pace) {
        let after = pace.unavailable_after;
        let limit = now.before(after);
        debug_assert!(since <= limit);
        for id in self.waiting.came_by(limit) {
            if let Some(caller) = self.waiting.remove(id) {
                self.leaving.push(caller.leave(self.unavailable(after)));
            }
        }
        for (caller, goes_on) in self.writes.depart_by(limit) {
            let outcome = if goes_on { self.unknown() } else { self.unavailable(after) };
            self.leaving.push(caller.leave(outcome));
        }
        self.dismiss_in_flight(limit, after);
    }

    fn dismiss_in_flight(&mut self, limit: Instant, after: Duration) {
        let Some(Flight { cargo: Cargo::Write(write), .. }) = &mut self.flight else { return };
        // A drain is voided, so its caller knows that it has no permits.
        let is_voided = write.op == CounterOp::Drain;
        for caller in write.depart_by(limit) {
            let outcome = if is_voided { self.unavailable(after) } else { self.unknown() };
            debug_assert!(!matches!(caller.work, Work::Take(_) | Work::Open));
            self.leaving.push(caller.leave(outcome));
        }
    }

    fn unavailable(&self, after: Duration) -> Outcome {
        Outcome::Unavailable { after, last_error: self.last_error.clone() }
    }

    fn unknown(&self) -> Outcome {
        Outcome::Unknown { last_error: self.last_error.clone() }
    }
}
