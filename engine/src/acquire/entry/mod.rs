//! The entry of a key: its callers, the one attempt to acquire it, and when to ask the server. Pure.
//!
//! Rules.
//! - The attempt belongs to the key. It has the kind and the ttl of the caller that is at the head when the attempt
//!   starts. Its grant goes to the first queued caller with that kind and ttl. A caller that leaves changes nothing for
//!   the others. A caller of another kind never gets the grant: its token or its release would be wrong.
//! - At most one ask is in flight. While a lease of this engine holds the key, nothing is asked (but see jeopardy), except
//!   whether the server still has the hold (see `confirm`).
//! - An unanswered ask is repeated with the same owner for half a ttl. Then its owner is closed and a new attempt
//!   starts. "Held" ends the attempt: an owner with earlier unanswered sends is closed.
//! - A notice is a hint: it leads to one ask. Several notices during an ask are remembered as one.
//! - A caller whose wait has ended gets `TimedOut` only if the lock was known to be held since the caller joined: by a
//!   definite answer, by the last definite answer as far as it counts for a caller that only tries, or by a lease of
//!   this engine. The caller leaves once there is such an answer or an unanswered ask for it, at the latest one command
//!   timeout after its wait.
//! - A grant that no caller takes is released to the server after a while, if others wait behind it.
//! - `unavailable_after` counts from the first send without a definite answer, but for each caller not before it
//!   joined.
//!
//! An entry does not send, sleep or wake anything: `take_step` returns what to do next, and the `handle_*` functions
//! take what came in.

mod answer;
mod confirm;
mod grants;
mod hand_off;
mod local;
mod looks;
mod notices;
mod pace;
mod spin;
mod step;
mod timeouts;
mod untaken;

use std::sync::Arc;

use self::grants::Grants;
use super::{
    attempt::Attempt,
    caller::{Caller, CallerId, ScopeId},
    caller_deadlines::Coming,
    clarity::Unclear,
    fairness::Fairness,
    held_here::HeldHere,
    queue::Queue,
};
use crate::{
    clock::Instant,
    lease::shared::{LeaseCore, Terms},
    transport::HoldKind,
};
use looks::Looks;
use pace::SpinPause;

pub(crate) use answer::{Grant, Verdict};
pub(crate) use grants::HeldGrant;
pub(crate) use pace::Pace;
pub(crate) use step::{Ask, Step};
pub(crate) use untaken::Look;

pub(crate) use crate::metrics::AskCause as Cause;

/// The relation of a scope to the key.
#[derive(Debug)]
pub(crate) enum ScopeView {
    /// The scope neither holds the key nor has a caller in the queue.
    Absent,
    /// The scope holds the key.
    Holds(Arc<LeaseCore>),
    /// The scope held the key, lost it, and has not dropped all its leases.
    Lost(Arc<LeaseCore>),
    /// The scope has a caller in the queue, with these terms.
    Queued(Terms),
}

/// The entry of one key.
#[derive(Debug)]
pub(crate) struct Entry<S> {
    callers: Queue<S>,
    grants: Grants,
    lost: Vec<HeldGrant>,
    attempt: Option<Attempt>,
    next_ask: Instant,
    cause: Cause,
    /// When the last ask was sent.
    asked_at: Instant,
    /// The last definite answer was "held", to an ask for this kind, and nothing has happened since.
    last_held: Option<HoldKind>,
    /// The arrival number of the last caller that had joined when the lock was last known to be held, by a definite
    /// answer or by a lease of this engine.
    held_after: Option<Coming>,
    /// The arrival number of the last caller that had joined when the last ask was sent.
    asking: Coming,
    /// The same for the last ask that was answered "held" or was not answered.
    asked: Option<Coming>,
    standing_back: bool,
    warned_no_expiry: bool,
    /// The cause of another ask, which is sent at once if the ask in flight is answered "held".
    follow_up: Option<Cause>,
    unclear: Option<Unclear>,
    failures: u32,
    spin_pause: SpinPause,
    looks: Looks,
    fairness: Fairness,
    /// The token of the server's last grant was not above its time: tokens do not run ahead of it.
    may_reserve_tokens: bool,
    /// How many releases of the lock by force this engine has sent that are not answered.
    forced_releases: u32,
}

impl<S> Default for Entry<S> {
    fn default() -> Self {
        Self {
            callers: Queue::default(),
            grants: Grants::default(),
            lost: Vec::new(),
            attempt: None,
            next_ask: Instant::default(),
            cause: Cause::Arrival,
            asked_at: Instant::default(),
            last_held: None,
            held_after: None,
            asking: 0,
            asked: None,
            standing_back: false,
            warned_no_expiry: false,
            follow_up: None,
            unclear: None,
            failures: 0,
            spin_pause: SpinPause::default(),
            looks: Looks::default(),
            fairness: Fairness::default(),
            may_reserve_tokens: false,
            forced_releases: 0,
        }
    }
}

impl<S> Entry<S> {
    /// Whether the entry can be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.is_idle_but_for_a_lease()
    }

    fn is_idle_but_for_a_lease(&self) -> bool {
        self.callers.is_empty() && self.lost.is_empty() && self.attempt.is_none() && self.forced_releases == 0
    }

    /// Whether the entry may ask at this moment.
    pub(crate) fn may_ask(&self, now: Instant) -> bool {
        self.next_ask <= now
    }

    /// Whether any caller is queued.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.callers.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn callers_len(&self) -> usize {
        self.callers.len()
    }

    /// When the caller at the head joined. It has waited longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.callers.head().map(|caller| caller.joined)
    }

    /// Every queued caller, in order.
    pub(crate) fn callers(&self) -> impl Iterator<Item = &Caller<S>> {
        self.callers.iter()
    }

    /// The callers of a fair lock, for the machine that keeps their places.
    pub(crate) fn queue_mut(&mut self) -> &mut Queue<S> {
        &mut self.callers
    }

    /// What the leases of this engine say about the key to callers of a fair lock.
    pub(crate) fn held_here(&self, now: Instant, pace: &Pace) -> HeldHere {
        let held = self.leases().any(|lease| lease.is_held(now));
        let surely = held && !self.is_confirm_due(now, pace);
        HeldHere { held, surely: surely && self.leases().all(|lease| !lease.is_in_jeopardy()) }
    }

    /// The leases of this engine that hold the key.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Arc<LeaseCore>> {
        self.grants.iter().map(|held| &held.lease)
    }

    /// The lease of this engine that holds the key, if there is exactly one.
    #[cfg(test)]
    pub(crate) fn only_lease(&self) -> Option<&Arc<LeaseCore>> {
        self.grants.only().map(|held| &held.lease)
    }

    /// Makes a new entry one of a key that a lease of this engine holds, with nothing else to remember.
    pub(crate) fn hold(&mut self, held: HeldGrant) {
        self.fairness = Fairness::of_one_grant(held.lease.kind(), held.lease.granted_at);
        self.grants.add(held); // a new entry has no grant that this one could replace
    }

    /// Makes an entry without callers equal to a new one. Each field is named, so that the compiler asks for one that is added.
    pub(crate) fn clear(&mut self) {
        debug_assert!(!self.is_wanted(), "to drop a caller wakes it, and the table is locked");
        let Self {
            callers,
            grants,
            lost,
            attempt,
            next_ask,
            cause,
            asked_at,
            last_held,
            held_after,
            asking,
            asked,
            standing_back,
            warned_no_expiry,
            follow_up,
            unclear,
            failures,
            spin_pause,
            looks,
            fairness,
            may_reserve_tokens,
            forced_releases,
        } = self;
        callers.clear();
        grants.clear();
        (*lost, *attempt, *last_held, *held_after, *asked) = (Vec::new(), None, None, None, None);
        (*next_ask, *cause, *asked_at) = (Instant::default(), Cause::Arrival, Instant::default());
        (*follow_up, *unclear) = (None, None);
        (*asking, *standing_back, *warned_no_expiry, *failures) = (0, false, false, 0);
        (*spin_pause, *looks, *fairness) = (SpinPause::default(), Looks::default(), Fairness::default());
        (*may_reserve_tokens, *forced_releases) = (false, 0);
    }

    /// The lease that holds the key, if [`Self::hold`] would make an equal entry from it: no caller waits, nothing
    /// is asked or unclear, and the grant was the only one of its streak. Whether tokens may be reserved is forgotten: the next
    /// ask of a fenced lock reserves none.
    pub(crate) fn as_held(&self) -> Option<&HeldGrant> {
        let held = self.grants.only()?;
        let is_quiet = self.is_idle_but_for_a_lease()
            && (self.follow_up, self.failures, self.looks) == (None, 0, Looks::default())
            && !(self.last_held.is_some() || self.standing_back || self.warned_no_expiry)
            && self.unclear.is_none()
            && self.asked_at <= held.lease.granted_at
            && self.fairness == Fairness::of_one_grant(held.lease.kind(), held.lease.granted_at);
        is_quiet.then_some(held)
    }

    /// The relation of a scope to the key.
    pub(crate) fn scope_view(&self, scope: ScopeId) -> ScopeView {
        let is_it = |held: &&HeldGrant| held.scope == Some(scope) && held.lease.holds() > 0;
        if let Some(held) = self.lost.iter().find(is_it) {
            return ScopeView::Lost(held.lease.clone());
        }
        match (self.grants.iter().find(is_it), self.callers.of_scope(scope)) {
            (Some(held), _) if held.lease.is_live() => ScopeView::Holds(held.lease.clone()),
            (Some(held), _) => ScopeView::Lost(held.lease.clone()),
            (None, Some(caller)) => ScopeView::Queued(caller.terms),
            (None, None) => ScopeView::Absent,
        }
    }

    /// Whether a caller of this kind that only tries can get "held" without a command: the last definite answer was
    /// "held" and no ask is in flight, or a lease of this engine holds the key, is not in jeopardy and was confirmed lately.
    ///
    /// A caller comes behind the writers that wait, so what is closed for them is closed for the caller.
    pub(crate) fn is_known_held_to_newcomers(&self, kind: HoldKind, now: Instant, pace: &Pace) -> bool {
        if self.grants.exclude(kind) && self.is_confirm_due(now, pace) {
            return false;
        }
        let waits_for_writers = self.callers.has_writers() && self.is_known_held(HoldKind::Write, now);
        waits_for_writers || self.is_known_held(self.first_to_be_served(kind), now)
    }

    // Callers that want permits are served in order: what is closed for the first is closed for those behind it.
    fn first_to_be_served(&self, newcomer: HoldKind) -> HoldKind {
        let head = self.callers.head().map(|head| head.terms.kind);
        head.filter(|_| matches!(newcomer, HoldKind::Permits(_))).unwrap_or(newcomer)
    }

    /// The same for a caller at the head.
    fn is_known_held(&self, kind: HoldKind, now: Instant) -> bool {
        let is_closed = self.last_held.is_some_and(|asked| grants::is_closed_for(asked, kind));
        self.is_surely_held_here(kind, now) || is_closed && self.attempt.is_none() && now < self.next_ask
    }

    /// The lease that a reader with these terms, outside of any scope, may hold without a command. No reader passes a
    /// writer that is queued.
    pub(crate) fn joinable(&self, terms: Terms, now: Instant) -> Option<&Arc<LeaseCore>> {
        if self.callers.has_writers() { None } else { self.grants.joinable(terms, now) }
    }

    /// Whether the caller at the head has to wait until a lease of this engine has ended.
    fn is_excluded_here(&self) -> bool {
        self.callers.head().is_some_and(|head| self.grants.exclude(head.terms.kind))
    }

    /// Queues a caller: at the head, if a grant of it was not taken in time. Returns whether the next step may be another one
    /// than before, or an earlier one.
    pub(crate) fn join(&mut self, caller: Caller<S>) -> bool {
        let before = self.waits_for_local_until();
        if caller.late > 0 {
            self.callers.push_front(caller)
        } else {
            self.callers.push_back(caller)
        }
        before.is_none() || before != self.waits_for_local_until()
    }

    /// If the next step is to wait for the end of a lease of this engine: until when at most. `None` for kinds of which a
    /// newcomer may have a step of its own: it gets a place in the line, or is compatible with the lease.
    fn waits_for_local_until(&self) -> Option<Instant> {
        let held = self.grants.only()?.lease.kind();
        let is_alone = matches!(held, HoldKind::Exclusive | HoldKind::Fenced(_) | HoldKind::Spin);
        let waits =
            is_alone && !self.callers.has_tries() && self.attempt.is_none() && self.is_excluded_here();
        waits.then(|| self.callers.first_end().unwrap_or(Instant::from_nanos(u64::MAX)))
    }

    /// Removes a caller that was dropped.
    pub(crate) fn depart(&mut self, id: CallerId) -> Option<Caller<S>> {
        self.callers.take(id)
    }

    /// Removes every caller: at shutdown, or when no task is left that serves them.
    pub(crate) fn depart_all(&mut self) -> Vec<Caller<S>> {
        self.callers.take_all()
    }

    fn ask_next(&mut self, moment: Instant, cause: Cause) {
        (self.next_ask, self.cause) = (moment, cause);
    }

    fn handle_clear(&mut self) {
        self.unclear = None;
        self.failures = 0;
    }

    fn is_surely_held_here(&self, kind: HoldKind, now: Instant) -> bool {
        let is_sure = |held: &HeldGrant| held.lease.is_held(now) && !held.lease.is_in_jeopardy();
        self.grants.exclude(kind) && self.grants.iter().any(is_sure)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod permits_model;
#[cfg(test)]
mod read_write_model;
#[cfg(test)]
mod tests;
