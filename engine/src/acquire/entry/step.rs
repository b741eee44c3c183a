//! Decides what an entry does next.

use std::{sync::Arc, time::Duration};

use super::{Cause, Entry, Look, Pace, grants};
use crate::{
    acquire::{attempt::Attempt, clarity::Unclear},
    clock::Instant,
    lease::{
        shared::{LeaseCore, Terms},
        unconfirmed_owner::UnconfirmedOwner,
    },
    metrics::LabelSet,
    owner::{Owner, OwnerMint},
    transport::HoldKind,
};

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask the server.
    Ask(Ask),
    /// Wait for the first of: this moment, a poke, a notice. `watch`: notices are wanted.
    Wait { until: Option<Instant>, watch: bool },
    /// Release this grant, because no caller takes it and others wait.
    TakeBack(Arc<LeaseCore>),
    /// No caller is left: nothing to do.
    Rest,
}

/// One ask to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The labels of the caller at the head.
    pub(crate) labels: LabelSet,
    pub(crate) owner: Owner,
    pub(crate) kind: HoldKind,
    pub(crate) ttl: Duration,
    /// See [`Call::reserved_tokens`](crate::transport::Call::reserved_tokens).
    pub(crate) reserved_tokens: u16,
    pub(crate) cause: Cause,
    /// When the caller that has waited longest joined.
    pub(crate) oldest: Instant,
    /// When the next caller leaves by the clock even if this ask is not answered by then.
    pub(crate) give_up: Option<Instant>,
    /// The same if this ask is not sent by then, while its node answers other calls.
    pub(crate) leaves: Option<Instant>,
}

impl<S> Entry<S> {
    /// Decides what to do next. Returns also an owner that must be closed.
    pub(crate) fn take_step(
        &mut self,
        now: Instant,
        mint: &OwnerMint,
        pace: &Pace,
    ) -> (Step, Option<UnconfirmedOwner>) {
        let Some(Terms { kind, ttl, labels, .. }) = self.callers.head().map(|head| head.terms) else {
            return (Step::Rest, self.rest(now));
        };
        let leaves_it_to_local = self.leaves_it_to_local();
        if leaves_it_to_local {
            if let Some(taken) = self.wait_for_local(now, pace) {
                return taken;
            }
        }
        self.hurry_for_smaller_want(now);
        if now < self.next_ask {
            self.hurry_for_spin(now, pace);
            let until = self.next_give_up(pace).map_or(self.next_ask, |give_up| give_up.min(self.next_ask));
            return (Step::Wait { until: Some(until), watch: self.wants_watch() }, None);
        }
        let closing = self.give_up_attempt(now);
        let reserved_tokens = self.tokens_to_reserve(kind, pace);
        let attempt = self.attempt.get_or_insert_with(|| Attempt::new(mint.mint(), kind, ttl));
        attempt.aim(kind, ttl, reserved_tokens);
        #[cfg(leasehold_fault)]
        attempt.forget_owner(mint);
        let ask = Ask {
            labels,
            owner: attempt.owner,
            kind: attempt.kind,
            ttl: attempt.ttl,
            reserved_tokens: attempt.reserved_tokens,
            cause: self.cause,
            oldest: self.oldest().unwrap_or(now),
            // A caller whose wait ends knows that the lock is held while a lease of this engine holds it.
            leaves: self.callers.first_end().map(|end| end + pace.command_timeout),
            give_up: if leaves_it_to_local {
                self.next_give_up(pace)
            } else {
                self.next_give_up_in_flight(pace)
            },
        };
        (self.follow_up, self.standing_back) = (None, false);
        (Step::Ask(ask), closing)
    }

    // The last "held" was the answer to a caller that has left. A reader may find a lock open that is closed for a writer,
    // and a caller that wants fewer permits may find enough.
    fn hurry_for_smaller_want(&mut self, now: Instant) {
        let wanted = self.callers.head().map(|head| head.terms.kind);
        let answered = self.last_held.filter(|_| self.attempt.is_none()).zip(wanted);
        if answered.is_some_and(|(asked, wanted)| !grants::is_closed_for(asked, wanted)) {
            self.ask_next(now, Cause::Turn);
        }
    }

    fn wants_watch(&self) -> bool {
        (self.last_held.is_some() || self.standing_back) && !self.head_spins()
    }

    /// If no caller is left and nothing is to be closed, stops asking as [`Step::Rest`] does. Returns whether it did.
    pub(crate) fn rest_if_unwanted(&mut self, now: Instant) -> bool {
        let rests = self.callers.is_empty() && self.attempt.is_none();
        if rests {
            self.rest(now);
        }
        rests
    }

    // Without a watch, `last_held` may be stale by the next arrival, so it is forgotten.
    fn rest(&mut self, now: Instant) -> Option<UnconfirmedOwner> {
        if self.last_held.take().is_some() {
            self.ask_next(now, Cause::Arrival);
        }
        self.stop_asking()
    }

    fn stop_asking(&mut self) -> Option<UnconfirmedOwner> {
        self.handle_clear();
        self.attempt.take().and_then(Attempt::into_closing)
    }

    // While the lease is in jeopardy, a caller that only tries needs an answer from the server.
    fn leaves_it_to_local(&self) -> bool {
        let is_doubtful = || self.grants.iter().any(|held| held.lease.is_in_jeopardy());
        self.is_excluded_here() && !(self.callers.has_tries() && is_doubtful())
    }

    // `None`: the server is asked whether it still has the hold.
    fn wait_for_local(&mut self, now: Instant, pace: &Pace) -> Option<(Step, Option<UnconfirmedOwner>)> {
        let look = match self.look_at_grant(now) {
            Look::TakeBack(lease) => return Some((Step::TakeBack(lease), self.stop_asking())),
            Look::Wait(look) => look,
        };
        let confirm = self.next_confirm(now, pace);
        if confirm <= now {
            let is_first = self.callers.has_tries(); // a caller that only tries waits for this answer
            self.ask_next(now, if is_first { Cause::Arrival } else { Cause::SafetyPoll });
            return None;
        }
        let until = self.next_give_up(pace).into_iter().chain(look).chain([confirm]).min();
        Some((Step::Wait { until, watch: false }, self.keep_unanswered(now)))
    }

    // An ask that is not answered is repeated with its owner at the next confirmation. Anything else is over.
    fn keep_unanswered(&mut self, now: Instant) -> Option<UnconfirmedOwner> {
        let is_unanswered = |attempt: &Attempt| !attempt.open.is_closed() && !attempt.is_over(now);
        if !self.attempt.as_ref().is_some_and(is_unanswered) {
            return self.stop_asking();
        }
        self.handle_clear();
        None
    }

    fn give_up_attempt(&mut self, now: Instant) -> Option<UnconfirmedOwner> {
        let over = self.attempt.as_ref().is_some_and(|attempt| attempt.is_over(now));
        if over { self.attempt.take().and_then(Attempt::into_closing) } else { None }
    }

    /// Ends the attempt, whose ask will never be answered. `latest`: until when the server may execute it. Returns the owner to
    /// be closed.
    pub(crate) fn give_up_unanswered(&mut self, latest: Instant) -> Option<UnconfirmedOwner> {
        self.attempt.take().and_then(|attempt| attempt.into_unanswered(latest))
    }

    /// Records that the ask is being sent.
    pub(crate) fn note_sent(&mut self, sent: Instant) {
        if let Some(attempt) = &mut self.attempt {
            attempt.note_sent(sent);
        }
        self.asking = self.callers.came();
        self.note_asked(sent);
        self.unclear.get_or_insert(Unclear { since: sent, last_error: None });
    }

    /// The ask has waited unsent for this time, while its node answered other calls. That does not count as a time without an
    /// answer.
    pub(crate) fn note_waited(&mut self, waited: Duration) {
        if let Some(unclear) = &mut self.unclear {
            unclear.since = unclear.since + waited;
        }
    }
}
