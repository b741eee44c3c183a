//! What a server's answer to an ask means for a fair entry.

use std::time::Duration;

use super::{Cause, FairEntry, PlaceId, Rule, place::Place};
#[cfg(leasehold_fault)]
use crate::faults::Fault;
use crate::{
    acquire::{
        caller::{Caller, Leaving, Patience, Refusal},
        entry::Grant,
        queue::Queue,
    },
    clock::Instant,
    lease::{shared::Granted, state},
    transport::{Effect, Outcome, Remaining, TransportError},
};

/// The result of an answer.
#[derive(Debug)]
pub(crate) struct Verdict<S> {
    /// The grant and its receivers. The first receiver decides the terms; the others share its scope.
    pub(crate) grant: Option<Grant<S>>,
    /// The callers that leave without the lock.
    pub(crate) leaving: Vec<Leaving<S>>,
    /// The lock was granted, and the caller has left. The grant is given back.
    pub(crate) is_unwanted: bool,
    /// Another client holds the lock without expiry; `true` only the first time that this entry sees it.
    pub(crate) no_expiry: bool,
}

/// The answer to an ask, and the times of the exchange.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) answer: Result<Outcome, TransportError>,
    pub(crate) sent: Instant,
    pub(crate) execute_by: Instant,
}

impl FairEntry {
    /// Handles the answer to the ask for this place. The driver has already checked the answer's clock: an answer of an
    /// older epoch arrives here as an unknown.
    pub(crate) fn handle_answer<S>(
        &mut self,
        callers: &mut Queue<S>,
        id: PlaceId,
        answer: Answer,
        now: Instant,
    ) -> Verdict<S> {
        let Answer { answer, sent, execute_by } = answer;
        let mut verdict = Verdict { grant: None, leaving: Vec::new(), is_unwanted: false, no_expiry: false };
        let Some(asked) = self.places.get_mut(&id).and_then(|place| place.asking.take()) else {
            return verdict;
        };
        self.asks_in_flight -= 1;
        if matches!(answer, Ok(Outcome::Queued { .. } | Outcome::Busy { .. }) | Err(_)) {
            self.asked = self.asked.max(Some(asked));
        }
        if matches!(answer, Ok(Outcome::Granted { .. } | Outcome::Queued { .. } | Outcome::Busy { .. })) {
            self.mark_clear(id);
        }
        match answer {
            Ok(Outcome::Granted { token, at }) => {
                self.handle_clear();
                let times = (sent, execute_by, now);
                self.handle_granted(
                    callers,
                    id,
                    times,
                    |owner| Granted {
                        owner,
                        token,
                        sent,
                        execute_by,
                        received: now,
                        clock: at.clock,
                        reserved_tokens: 0,
                    },
                    &mut verdict,
                );
            }
            Ok(Outcome::Queued { remaining, ahead, .. }) => {
                self.handle_refused(callers, remaining, &mut verdict);
                self.handle_queued(id, remaining, ahead, sent, now);
            }
            Ok(Outcome::Busy { remaining, .. }) => {
                self.handle_refused(callers, remaining, &mut verdict);
                self.handle_busy(callers, id, &mut verdict);
            }
            Ok(_too_late) => self.handle_too_late(id, now),
            Err(error) => self.handle_error(callers, id, error, execute_by, now, &mut verdict),
        }
        self.close_deserted(id);
        verdict
    }

    fn handle_granted<S>(
        &mut self,
        callers: &mut Queue<S>,
        id: PlaceId,
        (sent, execute_by, now): (Instant, Instant, Instant),
        granted: impl FnOnce(crate::owner::Owner) -> Granted,
        verdict: &mut Verdict<S>,
    ) {
        let Some(place) = self.places.get(&id) else { return };
        let in_time = now < state::deadline(sent, place.attempt.ttl);
        if !in_time && !place.deserted {
            self.ask_for(id, now, Cause::Retry); // the owner holds the lock, and a repeat lasts for its ttl
            self.hold_unconfirmed(id);
            return;
        }
        let Some(place) = self.remove(id) else { return };
        self.synced = None; // the caller may come back to the head of the queue, if it does not take the lock in time
        let receiver = if in_time { receiver(callers, &place) } else { None };
        let Some(receiver) = receiver else {
            verdict.is_unwanted = true;
            if !self.lacks(Rule::GiveBack) {
                self.closing.push(place.attempt.into_give_back(execute_by));
            }
            return;
        };
        let sharers = receiver.scope.map_or_else(Vec::new, |scope| callers.take_scope(scope));
        let granted = granted(place.attempt.owner);
        verdict.grant = Some(Grant { receiver, sharers, granted, open: place.attempt.open, stays: false });
    }

    // The owner has the lock, so a caller that leaves now is closed.
    fn hold_unconfirmed(&mut self, id: PlaceId) {
        if let Some(place) = self.places.get_mut(&id) {
            place.in_line_until.get_or_insert_default();
        }
    }

    fn handle_refused<S>(&mut self, callers: &Queue<S>, remaining: Remaining, verdict: &mut Verdict<S>) {
        self.handle_clear();
        self.held_after = Some(callers.came());
        verdict.no_expiry = remaining == Remaining::NoExpiry && !self.warned_no_expiry;
        self.warned_no_expiry |= remaining == Remaining::NoExpiry;
    }

    fn handle_queued(&mut self, id: PlaceId, remaining: Remaining, ahead: u32, sent: Instant, now: Instant) {
        let Some(place) = self.places.get_mut(&id) else { return };
        if place.deserted {
            return self.hold_unconfirmed(id);
        }
        if std::mem::take(&mut place.lost) {
            self.places_lost += 1;
        }
        let follows = std::mem::take(&mut place.follow_up);
        self.handle_in_line(id, remaining, ahead, sent, now);
        if follows {
            self.ask_for(id, now, Cause::Notice);
        }
    }

    // A caller with a wait that is over leaves with the next step: the lock is known to be held.
    fn handle_busy<S>(&mut self, callers: &mut Queue<S>, id: PlaceId, verdict: &mut Verdict<S>) {
        let Some(place) = self.places.get(&id) else { return };
        if place.waits {
            return self.ask_for(id, self.retry_at, Cause::Arrival); // an heir that waits took over meanwhile
        }
        let (caller, scope) = (place.caller, place.scope);
        self.close(id);
        self.synced = None;
        let tries = callers.get(caller).is_some_and(|caller| caller.patience == Patience::Try);
        let refused = tries.then(|| callers.take(caller)).flatten();
        verdict.leaving.extend(refused.map(|caller| Leaving { caller, refusal: Refusal::Held }));
        debug_assert!(scope.is_none_or(|scope| !self.by_scope.contains_key(&scope)));
    }

    // The first `TooLate` in a row is retried at once, because the time sample in that answer has corrected the clock
    // offset.
    fn handle_too_late(&mut self, id: PlaceId, now: Instant) {
        let delay = if self.failures == 0 { Duration::ZERO } else { self.pause() };
        self.handle_failure(now, delay);
        self.ask_for(id, now + delay, Cause::Retry);
    }

    fn handle_error<S>(
        &mut self,
        callers: &mut Queue<S>,
        id: PlaceId,
        error: TransportError,
        execute_by: Instant,
        now: Instant,
        verdict: &mut Verdict<S>,
    ) {
        if let (Effect::Unknown { not_after }, Some(place)) = (error.effect, self.places.get_mut(&id)) {
            place.attempt.open.add(not_after, execute_by, place.attempt.ttl);
        }
        if error.kind.is_final() {
            verdict.leaving = self.refuse_all(callers, &error);
            return;
        }
        let delay = self.pause();
        self.handle_failure(now, delay);
        self.note_error(&error);
        self.ask_error = Some(Box::new(error));
        self.ask_for(id, now + delay, Cause::Retry);
    }

    /// Asking again is useless: every caller leaves.
    pub(super) fn refuse_all<S>(
        &mut self,
        callers: &mut Queue<S>,
        error: &TransportError,
    ) -> Vec<Leaving<S>> {
        self.unclear = None;
        let leaving = |caller| Leaving { caller, refusal: Refusal::Failed(error.clone()) };
        callers.take_all().into_iter().map(leaving).collect()
    }

    // The ask is answered, so it is known now what a caller that has left may have on the server.
    fn close_deserted(&mut self, id: PlaceId) {
        let is_deserted = |place: &Place| place.deserted && place.asking.is_none();
        if self.places.get(&id).is_some_and(is_deserted) {
            self.close(id);
            self.synced = None; // another caller of its scope may have come meanwhile
        }
    }
}

/// The caller of the place, or another one of its scope if it has left meanwhile.
fn receiver<S>(callers: &mut Queue<S>, place: &Place) -> Option<Caller<S>> {
    #[cfg(leasehold_fault)]
    if Fault::LastComeFirst.is_on() {
        let last = callers.iter().last().map(|last| last.id);
        return callers.take(last?);
    }
    let heir = || callers.of_scope(place.scope?).map(|heir| heir.id);
    let id = if callers.get(place.caller).is_some() { Some(place.caller) } else { heir() };
    callers.take(id?)
}
