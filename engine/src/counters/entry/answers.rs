//! What an answer means, and what is done if there is none. Pure.

use std::num::NonZeroU32;

use super::{
    Entry, PAUSE_MAX, PAUSE_MIN, Pace,
    flight::{Cargo, Flight},
    work::{CallerId, Outcome, Patience, Work},
};
use crate::{
    clock::Instant,
    transport::{Counter, CounterOp, CounterReply, Effect, TransportError},
};

impl<R> Entry<R> {
    /// Takes in the answer to the operation that was sent last.
    pub(crate) fn handle_answer(
        &mut self,
        answer: Result<CounterReply, TransportError>,
        now: Instant,
        pace: &Pace,
    ) {
        let Some(mut flight) = self.flight.take() else { return };
        flight.sending = false;
        match answer {
            Ok(CounterReply::Done { result, left, .. }) => {
                (self.unclear_since, self.last_error, self.retry_at) = (None, None, None);
                self.pause = PAUSE_MIN;
                self.settle(flight, result, left, now, pace);
            }
            // Not executed: of this send that is certain, of the earlier ones nothing is said.
            Ok(CounterReply::TooLate { .. }) => self.fail(flight, None, now),
            Err(error) => self.fail(flight, Some(error), now),
        }
    }

    fn settle(&mut self, flight: Flight<R>, result: i64, left: i64, now: Instant, pace: &Pace) {
        let (present, sent) = (flight.present, flight.sent);
        match flight.cargo {
            Cargo::Take(members) => self.settle_take(&members, result, sent, now, pace),
            Cargo::Look => self.settle_look(left, present, sent, now, pace),
            Cargo::Void(_) => self.look_due |= !self.waiting.is_empty(),
            Cargo::Write(write) => {
                if write.op == CounterOp::Drain && write.callers.is_empty() {
                    self.give_back_all(u64::try_from(result).unwrap_or(0));
                }
                self.leaving.extend(write.answers(result, left));
                self.settle_write(left, present);
            }
        }
    }

    // After a write there may be permits, or the latch may be open.
    fn settle_write(&mut self, left: i64, present: CallerId) {
        if self.counter == Counter::Latch && left <= 0 {
            self.open(present);
        }
        self.look_due |= !self.waiting.is_empty();
    }

    fn settle_take(
        &mut self,
        members: &[(CallerId, NonZeroU32)],
        taken: i64,
        sent: Instant,
        now: Instant,
        pace: &Pace,
    ) {
        let (mut rest, mut surplus) = (u64::try_from(taken).unwrap_or(0), 0);
        let mut served = members.iter().take_while(|(_, permits)| {
            let fits = u64::from(permits.get()) <= rest;
            rest -= if fits { u64::from(permits.get()) } else { 0 };
            fits
        });
        let count = served.by_ref().count();
        for (id, permits) in &members[..count] {
            match self.waiting.remove(*id) {
                Some(caller) => self.leaving.push(caller.leave(took(*permits))),
                None => surplus += u64::from(permits.get()),
            }
        }
        self.share(surplus + rest);
        match count == members.len() {
            true => self.look_due |= !self.waiting.is_empty(),
            false => {
                self.handle_short(sent, now, pace);
                self.short_of = members.get(count).map(|(_, permits)| *permits);
            }
        }
    }

    // Permits of callers that have left go to the next callers, and what is left over goes back.
    fn share(&mut self, mut surplus: u64) {
        while let Some(caller) = self.waiting.take_first_within(surplus) {
            let Work::Take(permits) = caller.work else { break };
            surplus -= u64::from(permits.get());
            self.leaving.push(caller.leave(took(permits)));
        }
        self.give_back_all(surplus);
    }

    pub(super) fn give_back_all(&mut self, mut permits: u64) {
        while let Some(some) = NonZeroU32::new(u32::try_from(permits).unwrap_or(u32::MAX).min(GIVE_MAX)) {
            self.writes.add(CounterOp::Give(some), None);
            permits -= u64::from(some.get());
        }
    }

    fn settle_look(&mut self, left: i64, present: CallerId, sent: Instant, now: Instant, pace: &Pace) {
        if left > 0 {
            return self.handle_short(sent, now, pace);
        }
        self.open(present);
        self.look_due |= !self.waiting.is_empty();
    }

    fn open(&mut self, last: CallerId) {
        for id in self.waiting.up_to(last) {
            if let Some(caller) = self.waiting.remove(id) {
                self.leaving.push(caller.leave(Outcome::Done { result: 0, left: 0 }));
            }
        }
    }

    // A server has said that there are not enough permits, or that the latch is closed.
    fn handle_short(&mut self, sent: Instant, now: Instant, pace: &Pace) {
        (self.short_at, self.poll_at) = (Some(sent), Some(now + pace.safety_poll));
        for id in self.waiting.impatient_at(sent) {
            if let Some(caller) = self.waiting.remove(id) {
                let outcome = match caller.patience {
                    Patience::Try => Outcome::Short,
                    Patience::Wait(_) => Outcome::TimedOut,
                };
                self.leaving.push(caller.leave(outcome));
            }
        }
    }

    fn fail(&mut self, mut flight: Flight<R>, error: Option<TransportError>, now: Instant) {
        self.unclear_since.get_or_insert(flight.sent);
        self.retry_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        let may_count = error.as_ref().is_some_and(|error| error.effect != Effect::None);
        flight.unsure |= may_count && !matches!(flight.cargo, Cargo::Look);
        let refusal = error.clone().filter(|error| error.kind.is_final() && !flight.unsure);
        self.last_error = error.or(self.last_error.take());
        match refusal {
            Some(refusal) => self.refuse(flight, refusal),
            None if flight.unsure => self.flight = Some(flight),
            None => self.put_back(flight),
        }
    }

    // Certainly not executed: it gets a new number when it is sent the next time.
    fn put_back(&mut self, flight: Flight<R>) {
        match flight.cargo {
            Cargo::Take(_) | Cargo::Look => self.look_due |= !self.waiting.is_empty(),
            Cargo::Write(write) => self.writes.put_back(write),
            Cargo::Void(_) => {} // a void is always unsure
        }
    }

    // The server refuses it and will go on to: nothing was done.
    fn refuse(&mut self, flight: Flight<R>, error: TransportError) {
        (self.retry_at, self.unclear_since, self.pause) = (None, None, PAUSE_MIN);
        let outcome = Outcome::Refused(error);
        match flight.cargo {
            Cargo::Take(members) => self.dismiss(members.into_iter().map(|(id, _)| id).collect(), &outcome),
            Cargo::Look => self.dismiss(self.waiting.up_to(flight.present), &outcome),
            Cargo::Write(write) => {
                self.given_up += u64::from(write.goes_on() && write.callers.is_empty());
                self.leaving.extend(write.refused(&outcome));
            }
            Cargo::Void(_) => {}
        }
        self.look_due |= !self.waiting.is_empty();
    }

    /// The server may have forgotten the number: whether the operation counted stays unknown.
    pub(super) fn give_up(&mut self, flight: Flight<R>) {
        self.given_up += 1;
        let outcome = Outcome::Unknown { last_error: self.last_error.clone() };
        match flight.cargo {
            Cargo::Take(members) => self.dismiss(members.into_iter().map(|(id, _)| id).collect(), &outcome),
            Cargo::Write(write) => self.leaving.extend(write.refused(&outcome)),
            Cargo::Void(_) | Cargo::Look => {}
        }
        self.look_due |= !self.waiting.is_empty();
    }

    fn dismiss(&mut self, ids: Vec<CallerId>, outcome: &Outcome) {
        for id in ids {
            if let Some(caller) = self.waiting.remove(id) {
                self.leaving.push(caller.leave(outcome.clone()));
            }
        }
    }
}

fn took(permits: NonZeroU32) -> Outcome {
    Outcome::Done { result: i64::from(permits.get()), left: 0 }
}

/// At most this many permits are given back by one operation: peers read the number as a signed 32-bit integer.
const GIVE_MAX: u32 = i32::MAX as u32;
