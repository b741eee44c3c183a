//! A key that somebody here wants: its callers, the one attempt to get it, and when to ask. Pure.
//!
//! Rules.
//! - The attempt belongs to the key. It carries the ttl of the caller at the head when it starts; its grant goes to the
//!   first queued caller with that ttl. A caller that leaves just leaves.
//! - At most one ask is in flight. While a lease of this engine holds the key, nothing is asked (but see jeopardy).
//! - An unanswered ask is repeated with the same owner for half a ttl; then its owner is closed and a new attempt
//!   starts. "Held" ends the attempt: an owner with earlier unanswered sends is closed.
//! - A notice is a hint: it leads to one ask. Notices during an ask are remembered as one.
//! - `unavailable_after` runs from the first send without a definite answer, for each caller from its joining at most.
//!
//! It sends, sleeps and wakes nothing: `take_step` says what to do next, `handle_*` take what came in.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    attempt::{Attempt, Closing},
    caller::{Caller, CallerId, Leaving, Patience, Refusal, ScopeId},
    queue::Queue,
    turns::{Turn, Turns},
};
use crate::{
    clock::Instant,
    lease::{
        open_sends::OpenSends,
        shared::{Granted, LeaseCore, Terms},
        state,
    },
    owner::{Owner, OwnerMint},
    transport::{AcquireReply, Effect, Remaining, TransportError},
};

/// What the entry must know of the world to decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long without a definite answer until callers are told.
    pub(crate) unavailable_after: Duration,
    /// How long until a waiting entry asks without any notice, jitter included.
    pub(crate) safety_poll: Duration,
    /// A recent round trip.
    pub(crate) round_trip: Duration,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask the server.
    Ask(Ask),
    /// Wait for the first of: this moment, a poke, a notice. `watch`: notices are wanted.
    Wait { until: Option<Instant>, watch: bool },
    /// Nobody wants anything any more.
    Rest,
}

/// One ask of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) ttl: Duration,
    pub(crate) cause: Cause,
    /// Since when the longest waiting caller waits.
    pub(crate) oldest: Instant,
}

/// Why the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Somebody came and nothing was known.
    Arrival,
    /// A notice came.
    Notice,
    /// Right behind a release of our own, or after standing back.
    Turn,
    /// The time that was left on the server is over.
    Expiry,
    /// A message may have been lost.
    SafetyPoll,
    /// The subscription was not in force for a while.
    Resync,
    /// The last ask was not answered, or refused for the moment.
    Retry,
}

/// What came of an answer.
#[derive(Debug)]
pub(crate) struct Verdict<S> {
    /// The grant and who gets it: the first of them decides the terms, the others share its scope.
    pub(crate) grant: Option<Grant<S>>,
    /// Who leaves without it.
    pub(crate) leaving: Vec<Leaving<S>>,
    /// An owner to be closed.
    pub(crate) closing: Option<Closing>,
    /// A peer holds the lock without expiry, seen for the first time.
    pub(crate) no_expiry: bool,
}

/// A grant that found its receiver.
#[derive(Debug)]
pub(crate) struct Grant<S> {
    pub(crate) receiver: Caller<S>,
    pub(crate) sharers: Vec<Caller<S>>,
    pub(crate) granted: Granted,
    pub(crate) open: OpenSends,
}

/// How a scope stands to the key.
#[derive(Debug)]
pub(crate) enum ScopeView {
    /// It has nothing to do with it.
    Stranger,
    /// It holds it.
    Holds(Arc<LeaseCore>),
    /// It held it, lost it, and has not dropped all its leases.
    Lost(Arc<LeaseCore>),
    /// It has a caller in the queue, with these terms.
    Queued(Terms),
}

/// One key's entry.
#[derive(Debug)]
pub(crate) struct Entry<S> {
    callers: Queue<S>,
    local: Option<Local>,
    lost: Vec<Local>,
    attempt: Option<Attempt>,
    next_ask: Instant,
    cause: Cause,
    /// The last definite answer was "held", and nothing has happened since.
    last_held: bool,
    standing_back: bool,
    no_expiry_told: bool,
    noticed: bool,
    unclear: Option<Unclear>,
    troubles: u32,
    turns: Turns,
}

/// A lease of this engine, and the scope it was taken in.
#[derive(Clone, Debug)]
struct Local {
    lease: Arc<LeaseCore>,
    scope: Option<ScopeId>,
}

/// No definite answer since.
#[derive(Debug)]
struct Unclear {
    since: Instant,
    trouble: Option<TransportError>,
}

impl<S> Default for Entry<S> {
    fn default() -> Self {
        Self {
            callers: Queue::default(),
            local: None,
            lost: Vec::new(),
            attempt: None,
            next_ask: Instant::default(),
            cause: Cause::Arrival,
            last_held: false,
            standing_back: false,
            no_expiry_told: false,
            noticed: false,
            unclear: None,
            troubles: 0,
            turns: Turns::default(),
        }
    }
}

impl<S> Entry<S> {
    /// Whether it can be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.callers.is_empty() && self.local.is_none() && self.lost.is_empty() && self.attempt.is_none()
    }

    pub(crate) fn callers_len(&self) -> usize {
        self.callers.len()
    }

    /// When the caller at the head came, who waits longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.callers.head().map(|caller| caller.joined)
    }

    /// The lease of this engine that holds the key.
    pub(crate) fn local(&self) -> Option<&Arc<LeaseCore>> {
        self.local.as_ref().map(|local| &local.lease)
    }

    /// How a scope stands to the key.
    pub(crate) fn scope_view(&self, scope: ScopeId) -> ScopeView {
        let is_it = |local: &&Local| local.scope == Some(scope) && local.lease.holds() > 0;
        if let Some(local) = self.lost.iter().find(is_it) {
            return ScopeView::Lost(local.lease.clone());
        }
        match (self.local.iter().find(is_it), self.callers.iter().find(|caller| caller.scope == Some(scope)))
        {
            (Some(local), _) if local.lease.is_live() => ScopeView::Holds(local.lease.clone()),
            (Some(local), _) => ScopeView::Lost(local.lease.clone()),
            (None, Some(caller)) => ScopeView::Queued(caller.terms),
            (None, None) => ScopeView::Stranger,
        }
    }

    /// Whether a caller that only tries can be told "held" without a command: the last definite answer said so and
    /// nothing is being asked, or a lease of this engine holds the key and is not in jeopardy.
    pub(crate) fn is_known_held(&self, now: Instant) -> bool {
        self.is_surely_held_here(now) || self.last_held && self.attempt.is_none() && now < self.next_ask
    }

    /// Queues a caller; `ahead`: at the head, because its grant came too late to be taken.
    pub(crate) fn join(&mut self, caller: Caller<S>, ahead: bool) {
        if ahead { self.callers.push_front(caller) } else { self.callers.push_back(caller) }
    }

    /// A caller was dropped.
    pub(crate) fn depart(&mut self, id: CallerId) -> Option<Caller<S>> {
        self.callers.take_first(|caller| caller.id == id)
    }

    /// Every caller, at shutdown or when nobody is left to serve them.
    pub(crate) fn depart_all(&mut self) -> VecDeque<Caller<S>> {
        self.callers.take_all()
    }

    /// What to do next.
    pub(crate) fn take_step(
        &mut self,
        now: Instant,
        mint: &OwnerMint,
        pace: &Pace,
    ) -> (Step, Option<Closing>) {
        let Some(head) = self.callers.head() else {
            return (Step::Rest, self.rest(now));
        };
        if self.leaves_it_to_local() {
            let closing = self.stop_asking();
            return (Step::Wait { until: self.next_give_up(pace), watch: false }, closing);
        }
        if now < self.next_ask {
            let until = self.next_give_up(pace).map_or(self.next_ask, |give_up| give_up.min(self.next_ask));
            return (Step::Wait { until: Some(until), watch: self.last_held || self.standing_back }, None);
        }
        let ttl = head.terms.ttl;
        let closing = self.give_up_attempt(now);
        let attempt = self.attempt.get_or_insert_with(|| Attempt::new(mint.mint(), ttl));
        let ask = Ask {
            owner: attempt.owner,
            ttl: attempt.ttl,
            cause: self.cause,
            oldest: self.oldest().unwrap_or(now),
        };
        (self.noticed, self.standing_back) = (false, false);
        (Step::Ask(ask), closing)
    }

    // What is known grows old while nobody watches.
    fn rest(&mut self, now: Instant) -> Option<Closing> {
        if std::mem::take(&mut self.last_held) {
            self.ask_next(now, Cause::Arrival);
        }
        self.stop_asking()
    }

    fn stop_asking(&mut self) -> Option<Closing> {
        self.handle_clear();
        self.attempt.take().and_then(Attempt::into_closing)
    }

    // In jeopardy a caller that only tries wants the server's word.
    fn leaves_it_to_local(&self) -> bool {
        let wants_word = |local: &Local| self.callers.has_tries() && local.lease.is_in_jeopardy();
        self.local.as_ref().is_some_and(|local| !wants_word(local))
    }

    fn is_surely_held_here(&self, now: Instant) -> bool {
        self.local.as_ref().is_some_and(|local| local.lease.is_held(now) && !local.lease.is_in_jeopardy())
    }

    fn give_up_attempt(&mut self, now: Instant) -> Option<Closing> {
        let over = self.attempt.as_ref().is_some_and(|attempt| attempt.is_over(now));
        if over { self.attempt.take().and_then(Attempt::into_closing) } else { None }
    }

    /// The ask is being sent.
    pub(crate) fn note_sent(&mut self, sent: Instant) {
        if let Some(attempt) = &mut self.attempt {
            attempt.note_sent(sent);
        }
        self.unclear.get_or_insert(Unclear { since: sent, trouble: None });
    }

    /// The ask sent at `sent` was answered. `local` is told apart by the driver: an answer of an older epoch arrives here
    /// as an unknown.
    pub(crate) fn handle_answer(
        &mut self,
        answer: Result<AcquireReply, TransportError>,
        sent: Instant,
        execute_by: Instant,
        now: Instant,
        pace: &Pace,
    ) -> Verdict<S> {
        let mut verdict = Verdict { grant: None, leaving: Vec::new(), closing: None, no_expiry: false };
        match answer {
            Ok(AcquireReply::Granted { token, at }) => {
                self.handle_clear();
                if let Some(attempt) = self.attempt.take() {
                    let (owner, clock) = (attempt.owner, at.clock);
                    let granted = Granted { owner, token, clock, sent, execute_by, received: now };
                    self.handle_granted(attempt, granted, now, &mut verdict);
                }
            }
            Ok(AcquireReply::Held { remaining, .. }) => {
                self.handle_clear();
                self.handle_held(remaining, now, pace, &mut verdict);
            }
            Ok(AcquireReply::TooLate { .. }) => self.handle_too_late(now),
            Err(error) => self.handle_error(error, execute_by, now, &mut verdict),
        }
        verdict
    }

    fn handle_clear(&mut self) {
        self.unclear = None;
        self.troubles = 0;
    }

    fn handle_granted(&mut self, attempt: Attempt, granted: Granted, now: Instant, verdict: &mut Verdict<S>) {
        self.last_held = false;
        self.ask_next(now, Cause::Retry);
        let in_time = now < state::deadline(granted.sent, attempt.ttl);
        let receiver = self.callers.take_first(|caller| in_time && caller.terms.ttl == attempt.ttl);
        let Some(receiver) = receiver else {
            verdict.closing = Some(attempt.into_give_back(granted.execute_by)); // nobody there, or too old to be of use
            return;
        };
        self.turns.handle_grant(now);
        let sharers = self.take_sharers(receiver.scope);
        verdict.leaving = self.refuse_tries();
        verdict.grant = Some(Grant { receiver, sharers, granted, open: attempt.open });
    }

    fn take_sharers(&mut self, scope: Option<ScopeId>) -> Vec<Caller<S>> {
        let Some(scope) = scope else { return Vec::new() };
        let sharers = self.callers.take_where(|caller| (caller.scope == Some(scope)).then_some(()));
        sharers.into_iter().map(|(caller, ())| caller).collect()
    }

    /// The receiver's lease holds the key from now on. Returns the one that did so far: the server has given its lock to
    /// another owner, so it is lost.
    pub(crate) fn install(
        &mut self,
        lease: Arc<LeaseCore>,
        scope: Option<ScopeId>,
    ) -> Option<Arc<LeaseCore>> {
        let earlier = self.local.replace(Local { lease, scope })?;
        self.remember_lost(&earlier);
        Some(earlier.lease)
    }

    fn handle_held(&mut self, remaining: Remaining, now: Instant, pace: &Pace, verdict: &mut Verdict<S>) {
        self.last_held = true;
        self.turns.handle_held();
        verdict.closing = self.attempt.take().and_then(Attempt::into_closing);
        verdict.leaving = self.refuse_tries();
        verdict.no_expiry = remaining == Remaining::NoExpiry && !self.no_expiry_told;
        self.no_expiry_told |= remaining == Remaining::NoExpiry;
        match remaining {
            Remaining::For(left) if left.saturating_add(PAST_EXPIRY) <= pace.safety_poll => {
                self.ask_next(now + left + PAST_EXPIRY, Cause::Expiry)
            }
            Remaining::For(_) | Remaining::NoExpiry | Remaining::NotKnown => {
                self.ask_next(now + pace.safety_poll, Cause::SafetyPoll)
            }
        }
        if std::mem::take(&mut self.noticed) {
            self.ask_next(now, Cause::Notice);
        }
    }

    // Once in a row at once: the sample in the answer has put the offset right.
    fn handle_too_late(&mut self, now: Instant) {
        let delay = if self.troubles == 0 { Duration::ZERO } else { backoff(self.troubles) };
        self.troubles += 1;
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
            verdict.closing = self.attempt.take().and_then(Attempt::into_closing);
            let leaving = |caller| Leaving { caller, refusal: Refusal::Failed(error.clone()) };
            verdict.leaving = self.depart_all().into_iter().map(leaving).collect();
            return;
        }
        self.ask_next(now + backoff(self.troubles), Cause::Retry);
        self.troubles += 1;
        if let Some(unclear) = &mut self.unclear {
            unclear.trouble = Some(error);
        }
    }

    fn ask_next(&mut self, moment: Instant, cause: Cause) {
        (self.next_ask, self.cause) = (moment, cause);
    }

    fn refuse_tries(&mut self) -> Vec<Leaving<S>> {
        if !self.callers.has_tries() {
            return Vec::new();
        }
        self.leave_where(|caller| (caller.patience == Patience::Try).then_some(Refusal::Held))
    }

    /// Callers whose wait is over, or who had no definite answer for too long; who only tries, as soon as a lease of ours
    /// holds the key out of jeopardy.
    pub(crate) fn take_overdue(&mut self, now: Instant, pace: &Pace) -> Vec<Leaving<S>> {
        if !self.may_give_up() {
            return Vec::new();
        }
        let (since, held_here) = (self.unclear_since(), self.is_surely_held_here(now));
        let trouble = self.unclear.as_ref().and_then(|unclear| unclear.trouble.clone());
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

    fn leave_where(&mut self, refusal: impl FnMut(&Caller<S>) -> Option<Refusal>) -> Vec<Leaving<S>> {
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

    /// When the first caller's patience ends.
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

    /// What the watch of the key told: new notices, and whether some may have been missed before it came (back) in force.
    pub(crate) fn handle_notices(&mut self, notices: u64, resync: bool, now: Instant) {
        let foreign = self.turns.take_foreign(notices);
        if resync {
            self.turns.forget_own_notices();
        }
        let wanted = foreign > 0 || (!self.standing_back && (resync || notices > 0));
        if !wanted || self.local.is_some() {
            return;
        }
        self.noticed = true;
        if self.unclear.is_none() {
            self.standing_back = false;
            let cause = if notices > 0 { Cause::Notice } else { Cause::Resync };
            self.ask_next(now.min(self.next_ask), cause);
        }
    }

    /// Our lease ends by a release that is about to be sent.
    pub(crate) fn handle_local_release(
        &mut self,
        lease: &Arc<LeaseCore>,
        now: Instant,
        subscribed: bool,
        pace: &Pace,
    ) {
        if !self.remove_local(lease) {
            return;
        }
        self.noticed |= self.unclear.is_some(); // a "held" on its way may speak of this very lease
        match self.turns.handle_release(now, lease.terms.ttl, subscribed) {
            Turn::AtOnce => self.ask_next(now, Cause::Turn),
            Turn::StandBack => {
                self.standing_back = true;
                self.ask_next(now + Turns::pause(pace.round_trip), Cause::Turn);
            }
        }
    }

    /// Our lease was lost.
    pub(crate) fn handle_local_loss(&mut self, lease: &Arc<LeaseCore>, now: Instant) {
        let Some(local) = self.local.clone().filter(|local| Arc::ptr_eq(&local.lease, lease)) else { return };
        self.remove_local(lease);
        self.noticed |= self.unclear.is_some();
        self.remember_lost(&local);
        self.ask_next(now, Cause::Turn);
    }

    fn remember_lost(&mut self, local: &Local) {
        if local.scope.is_some() && local.lease.holds() > 0 {
            self.lost.push(local.clone());
        }
    }

    fn remove_local(&mut self, lease: &Arc<LeaseCore>) -> bool {
        let is_it = self.local.as_ref().is_some_and(|local| Arc::ptr_eq(&local.lease, lease));
        if is_it {
            self.local = None;
            self.last_held = false;
        }
        is_it
    }

    /// A hold of a lost lease was dropped: its scope may be free again.
    pub(crate) fn forget_dropped(&mut self) {
        self.lost.retain(|local| local.lease.holds() > 0);
    }

    /// The release was answered, and told how many its notice reached. `None`: not known, or it published nothing.
    pub(crate) fn handle_release_answer(
        &mut self,
        published: bool,
        listeners: Option<u32>,
        subscribed: bool,
    ) {
        if !published {
            self.turns.forget_own_notices();
        }
        self.turns.handle_listeners(listeners, subscribed);
    }

    /// The way to the servers has changed: a retry need not wait any longer.
    pub(crate) fn handle_topology(&mut self, now: Instant) {
        if self.unclear.is_some() {
            self.ask_next(now.min(self.next_ask), Cause::Resync);
        }
    }
}

fn unavailable_at<S>(caller: &Caller<S>, unclear_since: Option<Instant>, pace: &Pace) -> Option<Instant> {
    match (caller.patience, unclear_since) {
        (Patience::Try, _) => Some(caller.joined + pace.unavailable_after),
        (Patience::Wait(_), since) => since.map(|since| since.max(caller.joined) + pace.unavailable_after),
    }
}

/// 10 ms, doubled with each trouble in a row, at most 200 ms: within a second of healing several asks go out.
fn backoff(troubles: u32) -> Duration {
    (BACKOFF_MIN * 2u32.saturating_pow(troubles.min(10))).min(BACKOFF_MAX)
}

/// A server counts whole milliseconds: one more, and the hold is gone.
const PAST_EXPIRY: Duration = Duration::from_millis(1);
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
