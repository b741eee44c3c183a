//! The entry of one counter: who wants what, and what is on its way. Pure: `now` is an argument, and the caller sends.
//!
//! Rules:
//! - One operation is in flight. A writing operation gets its number at its first send, so numbers rise in the order of
//!   the operations.
//! - Writing operations go before takes, but a take that is due waits for one of them at most.
//! - An operation that may have been executed is sent again with its number until it is answered, or until the server
//!   may have forgotten the number. A take or a drain that nobody wants any more is settled by a `Void` instead.
//! - Permits that were taken for a caller that has left go to the next callers, or back to the server.
//! - A waiting caller causes a send when it comes, after a notice, after the watch came in force or had a gap, at the
//!   safety poll, and at its deadline.

mod answers;
mod flight;
mod leaving;
mod pace;
mod waiting;
pub(crate) mod work;
mod writes;

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

pub(crate) use self::{flight::Command, pace::Pace};
use self::{
    flight::{Cargo, Flight},
    waiting::Waiting,
    work::{Caller, CallerId, Leaving, Patience},
    writes::{Writes, op_of},
};
use crate::{
    clock::Instant,
    transport::{Counter, CounterOp, TransportError},
};

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Command),
    /// Until this moment, or until something changes. `watch`: callers wait for a notice.
    Wait {
        until: Option<Instant>,
        watch: bool,
    },
    /// There is nothing to do: no caller, and nothing on its way.
    Rest,
}

/// The callers and the operations of one counter.
#[derive(Clone, Debug)]
pub(crate) struct Entry<R> {
    counter: Counter,
    waiting: Waiting<R>,
    writes: Writes<R>,
    flight: Option<Flight<R>>,
    leaving: Vec<Leaving<R>>,
    /// Whether something has happened since the last look that may let a waiting caller go.
    look_due: bool,
    /// The next safety poll.
    poll_at: Option<Instant>,
    /// When the last look was sent that did not serve every caller.
    short_at: Option<Instant>,
    /// How many permits the first caller wanted that this look did not serve. `None`: another look was sent since.
    short_of: Option<NonZeroU32>,
    /// A writing operation was the last one, so a take that is due goes next.
    take_next: bool,
    /// Nothing is sent before this moment, because the last send has failed.
    retry_at: Option<Instant>,
    pause: Duration,
    /// When the first send without a definite answer was sent.
    unclear_since: Option<Instant>,
    last_error: Option<TransportError>,
    /// Operations that were given up without knowing whether they counted, since the driver last asked.
    given_up: u64,
}

impl<R> Entry<R> {
    pub(crate) fn new(counter: Counter) -> Self {
        Self {
            counter,
            waiting: Waiting::default(),
            writes: Writes::default(),
            flight: None,
            leaving: Vec::new(),
            look_due: false,
            poll_at: None,
            short_at: None,
            short_of: None,
            take_next: false,
            retry_at: None,
            pause: PAUSE_MIN,
            unclear_since: None,
            last_error: None,
            given_up: 0,
        }
    }

    pub(crate) fn counter(&self) -> Counter {
        self.counter
    }

    /// Queues a caller.
    pub(crate) fn join(&mut self, caller: Caller<R>) {
        match op_of(caller.work) {
            Some(op) => self.writes.add(op, Some(caller)),
            None => {
                // Behind callers that a server has refused, a caller that waits would be refused as well.
                let waits_behind = self.short_at.is_some() && !self.waiting.is_empty();
                self.look_due |= !waits_behind || caller.patience == Patience::Try;
                self.waiting.add(caller);
            }
        }
    }

    /// Gives permits back that a caller was given and did not take.
    pub(crate) fn give_back(&mut self, permits: u64) {
        self.give_back_all(permits);
    }

    /// Takes in that notices came, or that some may have been missed.
    pub(crate) fn handle_notice(&mut self) {
        self.look_due |= !self.waiting.is_empty();
    }

    /// Takes in that the routes have changed: a retry need not wait any more.
    pub(crate) fn handle_topology(&mut self) {
        (self.retry_at, self.pause) = (None, PAUSE_MIN);
    }

    /// The callers that have their answers.
    pub(crate) fn take_leaving(&mut self) -> Vec<Leaving<R>> {
        std::mem::take(&mut self.leaving)
    }

    /// How many operations were given up since the last call.
    pub(crate) fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none() && self.writes.is_empty() && self.waiting.is_empty()
    }

    /// The number of callers that have no answer yet.
    pub(crate) fn callers(&self) -> usize {
        let in_flight = match &self.flight {
            Some(Flight { cargo: Cargo::Write(write), .. }) => write.callers.len(),
            _ => 0,
        };
        self.waiting.len() + self.writes.callers() + in_flight + self.leaving.len()
    }

    /// When the first caller that waits has come.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.first_joined()
    }

    /// Since when no definite answer came, if the next send is due now and would be a retry.
    pub(crate) fn retry_since(&self, now: Instant) -> Option<Instant> {
        let in_flight = self.flight.as_ref().map(|flight| flight.sending);
        let is_due = in_flight == Some(false)
            || in_flight.is_none() && (self.is_look_due(now) || !self.writes.is_empty());
        self.unclear_since.filter(|_| is_due && self.retry_at.is_none_or(|at| at <= now))
    }

    /// What to do now. `mint` gives a number above every earlier one. `ahead`: how far the server's clock is ahead, if
    /// that is known.
    pub(crate) fn take_step(
        &mut self,
        now: Instant,
        pace: &Pace,
        ahead: Option<i64>,
        mint: &mut dyn FnMut() -> u64,
    ) -> Step {
        if self.flight.as_ref().is_some_and(|flight| flight.sending)
            || self.retry_at.is_some_and(|at| at > now)
        {
            return self.wait(pace);
        }
        self.retry_at = None;
        self.settle_unwanted(now, pace, ahead, mint);
        if let Some(flight) = &mut self.flight {
            return Step::Send(flight.send(now, pace));
        }
        let look = self.is_look_due(now) && (self.take_next || self.writes.is_empty());
        let cargo = if look { Some(self.look()) } else { self.writes.next().map(Cargo::Write) };
        match cargo {
            Some(cargo) => self.send_first(cargo, now, pace, ahead, mint),
            None => self.wait(pace),
        }
    }

    fn send_first(
        &mut self,
        cargo: Cargo<R>,
        now: Instant,
        pace: &Pace,
        ahead: Option<i64>,
        mint: &mut dyn FnMut() -> u64,
    ) -> Step {
        self.take_next = matches!(cargo, Cargo::Write(_));
        let number = if matches!(cargo, Cargo::Look) { 0 } else { mint() };
        let mut flight = Flight::first(number, cargo, self.waiting.last(), now, ahead);
        let command = flight.send(now, pace);
        self.flight = Some(flight);
        Step::Send(command)
    }

    fn is_look_due(&self, now: Instant) -> bool {
        let has_passed = |moment: Option<Instant>| moment.is_some_and(|moment| moment <= now);
        !self.waiting.is_empty()
            && (self.look_due
                || self.is_blocker_gone()
                || has_passed(self.poll_at)
                || has_passed(self.waiting.first_deadline()))
    }

    // The caller that the last look did not serve has left, and the first one now wants less: there may be enough for it.
    fn is_blocker_gone(&self) -> bool {
        let wants = self.waiting.first_want();
        wants.zip(self.short_of).is_some_and(|(wants, short_of)| wants < short_of)
    }

    fn look(&mut self) -> Cargo<R> {
        (self.look_due, self.poll_at, self.short_of) = (false, None, None);
        match self.counter {
            Counter::Semaphore => Cargo::Take(self.waiting.first(TAKE_MAX)),
            Counter::Latch | Counter::PermitTotal => Cargo::Look,
        }
    }

    // Before a send: an operation that nobody wants is settled, and one whose number may be forgotten is given up.
    fn settle_unwanted(
        &mut self,
        now: Instant,
        pace: &Pace,
        ahead: Option<i64>,
        mint: &mut dyn FnMut() -> u64,
    ) {
        let Some(mut flight) = self.flight.take() else { return };
        if !flight.may_be_sent(now, pace, ahead) {
            return self.give_up(flight);
        }
        self.flight = match self.fate(&flight) {
            Fate::Repeated => Some(flight),
            Fate::Voided => Some(flight.to_void(mint())),
            Fate::Dropped => None,
        };
    }

    fn fate(&self, flight: &Flight<R>) -> Fate {
        match &flight.cargo {
            Cargo::Take(members) if members.iter().any(|(id, _)| self.waiting.contains(*id)) => {
                Fate::Repeated
            }
            Cargo::Take(_) => Fate::Voided,
            Cargo::Void(_) => Fate::Repeated,
            Cargo::Look => Fate::Dropped,
            Cargo::Write(write) if write.is_wanted() => Fate::Repeated,
            Cargo::Write(write) if write.op == CounterOp::Drain => Fate::Voided,
            // The next number keeps a late copy from being executed.
            Cargo::Write(_) => Fate::Dropped,
        }
    }

    fn wait(&self, pace: &Pace) -> Step {
        if self.is_idle() {
            return Step::Rest;
        }
        let sending = self.flight.as_ref().is_some_and(|flight| flight.sending);
        let poll =
            if self.retry_at.is_some() || self.flight.is_some() { self.retry_at } else { self.poll_at };
        let until = [poll, self.next_leave(pace), self.first_deadline_to_look(sending)];
        Step::Wait { until: until.into_iter().flatten().min(), watch: !self.waiting.is_empty() }
    }

    fn first_deadline_to_look(&self, sending: bool) -> Option<Instant> {
        self.waiting.first_deadline().filter(|_| !sending && self.retry_at.is_none())
    }
}

/// What becomes of an operation that may have been executed.
enum Fate {
    Repeated,
    Voided,
    Dropped,
}

impl<R> Entry<R> {
    /// Removes a caller that does not wait for its answer any more.
    pub(crate) fn depart(&mut self, id: CallerId) -> Option<Caller<R>> {
        let waiting = self.waiting.remove(id).or_else(|| self.writes.depart(id));
        waiting.or_else(|| match &mut self.flight {
            Some(Flight { cargo: Cargo::Write(write), .. }) => write.depart(id),
            _ => None,
        })
    }

    /// Removes every caller whose work has not begun, but for releases and count-downs.
    pub(crate) fn depart_all(&mut self) -> Vec<Caller<R>> {
        let mut callers = self.waiting.remove_all();
        callers.extend(self.writes.remove_optional());
        callers
    }

    /// Ends the entry. Returns where each caller that has no answer yet waits for it.
    pub(crate) fn into_replies(mut self) -> Vec<R> {
        let in_flight = match self.flight {
            Some(Flight { cargo: Cargo::Write(write), .. }) => write.callers,
            _ => BTreeMap::new(),
        };
        let callers = self.waiting.remove_all().into_iter().chain(self.writes.into_callers());
        let replies = callers.chain(in_flight.into_values()).map(|caller| caller.reply_to);
        replies.chain(self.leaving.into_iter().map(|leaving| leaving.reply_to)).collect()
    }
}

/// At most this many callers are served by one operation.
const TAKE_MAX: usize = 64;
/// The pause before the first retry. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause between two retries.
const PAUSE_MAX: Duration = Duration::from_millis(640);

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
