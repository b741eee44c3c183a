//! The callers of a fair lock: one place in the server's line for each caller, and when to ask for which. Pure.
//!
//! Rules.
//! - An attempt belongs to its caller. Its owner *is* the caller's place in the line, and it keeps that owner until the
//!   caller has the lock or leaves. No grant goes to another caller, because the line may have callers of other
//!   processes in between.
//! - Places are made in the order of the callers, at most `places_max` for each key. The callers behind wait here. The
//!   callers of one re-entry scope have one place together.
//! - A caller that only tries, or whose wait is over when its place is made, asks with [`Op::Acquire`], which never
//!   joins the line. All others ask with [`Op::Queue`].
//! - A caller that leaves is closed by a release of its owner, which takes the owner out of the lock and out of the
//!   line. If an ask of the owner is in flight, its answer comes first: until then it is not known what to close.
//! - An ask without an answer is repeated with the same owner, however long it takes: a repeat lasts for its ttl from
//!   its own execution, and another owner would lose the place.
//! - Every place in the line beats each second, whatever else is in flight. A beat is also the safety poll. A place
//!   that the server does not know any more joins again at the tail, which is counted.
//! - The place is asked for after a notice to it, when a beat says that it is its turn, and when the hold in front of
//!   the head runs out. A notice during an ask leads to one more ask.
//! - Asks that many keys may want at the same moment, as after a failover, need a permit of the retry rate each. The
//!   places behind such an ask wait, but for those that have got a notice.
//! - A caller leaves once the key, or its own place, has had no definite answer for `unavailable_after`.
//! - While asks fail, one of them at a time is repeated, with back-off.
//!
//! `Queue`, with the callers, belongs to the key's entry, and is an argument of every function here. The leases of the
//! key belong to the entry too; what this machine needs to know of them is [`HeldHere`].
//!
//! [`Op::Acquire`]: crate::transport::Op::Acquire
//! [`Op::Queue`]: crate::transport::Op::Queue

mod answer;
mod beat;
mod place;
mod step;
mod timeouts;
mod unclear;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::place::Place;
use super::{
    caller::{CallerId, ScopeId},
    caller_deadlines::Coming,
    clarity::{Unclear, backoff, is_paced},
    held_here::HeldHere,
    queue::Queue,
};
use crate::{
    clock::Instant,
    lease::unconfirmed_owner::UnconfirmedOwner,
    owner::{Owner, OwnerMint},
    transport::{PlaceTerms, TransportError},
};

pub(crate) use answer::{Answer, Verdict};
pub(crate) use beat::{BEAT, Beat};
pub(crate) use step::{Ask, Plan};

use super::entry::Cause;

/// The number of a place: the number of its owner. Places are numbered in the order in which they were made.
pub(crate) type PlaceId = u64;

/// The times and limits that a fair entry needs for its decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FairPace {
    /// How long a caller may be without a definite answer before it gets `Unavailable`.
    pub(crate) unavailable_after: Duration,
    /// How long the answer to an ask may take.
    pub(crate) command_timeout: Duration,
    /// How long a place stays valid without news of its owner.
    pub(crate) terms: PlaceTerms,
    /// How many places of this engine one key may have at once.
    pub(crate) places_max: usize,
}

/// The places of one key, and what is known of its line.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct FairEntry {
    places: BTreeMap<PlaceId, Place>,
    by_caller: BTreeMap<CallerId, PlaceId>,
    by_scope: BTreeMap<ScopeId, PlaceId>,
    /// When each place is asked for next, as far as that is known.
    due: BTreeSet<(Instant, PlaceId)>,
    /// The places whose beat is due before all others: the subscription came in force, or a suspect's time is up.
    checks: BTreeSet<PlaceId>,
    /// Since when each place without a definite answer has had none.
    unclear_places: BTreeSet<(Instant, PlaceId)>,
    next_beat: Option<Instant>,
    next_check: Option<Instant>,
    batches_in_flight: usize,
    asks_in_flight: usize,
    /// The numbers of arrivals, of returns and of callers when the places were last compared with the queue.
    synced: Option<(Coming, u64, usize)>,
    /// The arrival number of the last caller that had joined when the lock was last known not to be free for newcomers.
    held_after: Option<Coming>,
    /// The arrival number of the last caller that had joined when the last answered or failed ask was sent.
    asked: Option<Coming>,
    unclear: Option<Unclear>,
    /// The last error of an ask.
    ask_error: Option<Box<TransportError>>,
    failures: u32,
    retry_at: Instant,
    warned_no_expiry: bool,
    closing: Vec<UnconfirmedOwner>,
    listen: Vec<(PlaceId, Owner)>,
    ignore: Vec<PlaceId>,
    places_lost: u64,
    #[cfg(test)]
    without: Option<Rule>,
}

impl FairEntry {
    /// Compares the places with the queue: closes those whose caller has left, and makes those of callers that have
    /// none.
    fn sync<S>(&mut self, callers: &Queue<S>, now: Instant, mint: &OwnerMint, pace: &FairPace) {
        let seen = (callers.came(), callers.returned(), callers.len());
        if self.synced.replace(seen) == Some(seen) {
            return;
        }
        let has_left = |place: &Place| !place.deserted && callers.get(place.caller).is_none();
        let left: Vec<_> =
            self.places.iter().filter(|(_, place)| has_left(place)).map(|(id, _)| *id).collect();
        left.into_iter().for_each(|id| self.handle_departure(id, callers));
        self.make_places(callers, now, mint, pace);
    }

    fn make_places<S>(&mut self, callers: &Queue<S>, now: Instant, mint: &OwnerMint, pace: &FairPace) {
        for caller in callers.iter() {
            if self.places.len() >= pace.places_max {
                return;
            }
            let has_place = self.by_caller.contains_key(&caller.id)
                || caller.scope.is_some_and(|scope| self.by_scope.contains_key(&scope));
            if !has_place {
                let owner = mint.mint();
                self.by_caller.insert(caller.id, owner.number());
                self.by_scope.extend(caller.scope.map(|scope| (scope, owner.number())));
                self.places.insert(owner.number(), Place::new(owner, caller, now));
                self.ask_for(owner.number(), now, Cause::Arrival);
                if self.failures > 0 {
                    self.mark_unclear(owner.number(), now);
                }
            }
        }
    }

    // Another caller of the same scope goes on in the place of the caller that has left.
    fn handle_departure<S>(&mut self, id: PlaceId, callers: &Queue<S>) {
        let awaits = !self.lacks(Rule::AwaitAnswer);
        let Some(place) = self.places.get_mut(&id) else { return };
        self.by_caller.remove(&place.caller);
        if let Some(heir) = place.scope.and_then(|scope| callers.of_scope(scope)) {
            place.pass_on_to(heir);
            self.by_caller.insert(heir.id, id);
            self.pass_on_unclear(id, heir.joined);
            return;
        }
        if place.asking.is_some() && awaits {
            place.deserted = true;
            self.forget_plans(id);
            return;
        }
        self.close(id);
    }

    /// Removes a place. Its owner is closed if a server may have it in the lock or in the line.
    fn close(&mut self, id: PlaceId) {
        let Some(place) = self.remove(id) else { return };
        if !self.lacks(Rule::CloseOnLeave) {
            self.closing.extend(place.into_closing());
        }
    }

    fn remove(&mut self, id: PlaceId) -> Option<Place> {
        self.forget_plans(id);
        let place = self.places.remove(&id)?;
        if place.asking.is_some() {
            self.asks_in_flight -= 1;
        }
        if place.was_in_line {
            self.listen.retain(|(listening, _)| *listening != id); // not watched yet
            self.ignore.push(id);
        }
        self.by_caller.remove(&place.caller);
        place.scope.map(|scope| self.by_scope.remove(&scope));
        Some(place)
    }

    fn forget_plans(&mut self, id: PlaceId) {
        self.mark_clear(id);
        self.checks.remove(&id);
        if let Some((moment, _)) = self.places.get_mut(&id).and_then(|place| place.next.take()) {
            self.due.remove(&(moment, id));
        }
    }

    /// Plans the next ask for this place, unless an earlier one is planned. While an ask is in flight nothing is planned:
    /// its answer decides.
    fn ask_for(&mut self, id: PlaceId, moment: Instant, cause: Cause) {
        let one_each = !self.lacks(Rule::OneAskEach);
        let may_plan = |place: &&mut Place| place.is_idle() || (!one_each && !place.deserted);
        let Some(place) = self.places.get_mut(&id).filter(may_plan) else { return };
        let hastens = |planned: Cause| cause == Cause::Notice && is_paced(planned);
        if place.next.is_some_and(|(planned, why)| planned <= moment && !hastens(why)) {
            return;
        }
        if let Some((planned, _)) = place.next.replace((moment, cause)) {
            self.due.remove(&(planned, id));
        }
        self.due.insert((moment, id));
    }

    /// The topology has changed: a retry need not wait any longer, and every place is looked at.
    pub(crate) fn handle_topology(&mut self, now: Instant) {
        self.retry_at = self.retry_at.min(now);
        if self.failures > 0 {
            let retries: Vec<_> = self.due.iter().map(|(_, id)| *id).collect();
            retries.into_iter().for_each(|id| self.ask_for(id, now, Cause::Resync));
        }
        // Every key of every engine hears of the change. From then on their beats are spread.
        let first = self.places.keys().next().copied().unwrap_or_default();
        self.next_beat = self.next_beat.map(|moment| moment.min(now + spread(first)));
    }

    /// Removes every place, because no task is left that serves them. Returns the owners to be closed.
    pub(crate) fn abandon(&mut self) -> Vec<UnconfirmedOwner> {
        while let Some(id) = self.places.keys().next().copied() {
            self.close(id);
        }
        std::mem::take(&mut self.closing)
    }

    fn handle_clear(&mut self) {
        (self.unclear, self.failures) = (None, 0);
    }

    /// Asks that fail together count as one failure.
    fn handle_failure(&mut self, now: Instant, delay: Duration) {
        if self.failures == 0 {
            self.mark_due_unclear(now);
        }
        if self.failures == 0 || now >= self.retry_at {
            self.failures += 1;
            self.retry_at = now + delay;
        }
    }

    fn pause(&self) -> Duration {
        backoff(self.failures)
    }

    fn note_error(&mut self, error: &TransportError) {
        if let Some(unclear) = &mut self.unclear {
            unclear.last_error = Some(Box::new(error.clone()));
        }
    }

    fn note_sent(&mut self, now: Instant) {
        self.unclear.get_or_insert(Unclear { since: now, last_error: None });
    }

    /// Whether a place of this engine waits in the line for certain, so that the lock is not free for a caller that comes.
    fn is_surely_in_line(&self, now: Instant) -> bool {
        let is_sure = |place: &Place| {
            !place.deserted && !place.has_turn && place.in_line_until.is_some_and(|until| now < until)
        };
        self.places.values().any(is_sure)
    }

    /// Whether the entry works without this rule. For tests that show that each rule is needed.
    #[cfg(test)]
    fn lacks(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn lacks(&self, _rule: Rule) -> bool {
        false
    }
}

/// The rules that the model leaves out one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The owner of a caller that leaves is closed.
    CloseOnLeave,
    /// What to close is decided after the answer to the ask in flight.
    AwaitAnswer,
    /// A grant whose caller has left is given back.
    GiveBack,
    /// An ask without an answer is repeated with the same owner.
    KeepOwner,
    /// A place has one ask in flight.
    OneAskEach,
    /// A place that the server does not know any more joins again.
    JoinAgain,
    /// A notice leads to an ask.
    FollowNotice,
    /// A notice during an ask leads to one more ask.
    RememberNotice,
    /// A place beats once its subscription is in force.
    CheckSubscription,
    /// A beat that says that it is the place's turn leads to an ask.
    TakeTurn,
    /// Places are made in the order of the callers.
    FirstComeFirst,
    /// A caller that only tries does not join the line.
    TryOnly,
}

#[cfg(test)]
impl Rule {
    const ALL: [Rule; 12] = [
        Rule::CloseOnLeave,
        Rule::AwaitAnswer,
        Rule::GiveBack,
        Rule::KeepOwner,
        Rule::OneAskEach,
        Rule::JoinAgain,
        Rule::FollowNotice,
        Rule::RememberNotice,
        Rule::CheckSubscription,
        Rule::TakeTurn,
        Rule::FirstComeFirst,
        Rule::TryOnly,
    ];
}

/// Up to a quarter of a second, different for places that follow each other.
fn spread(id: PlaceId) -> Duration {
    Duration::from_millis(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56)
}

/// Asks of places that fail are repeated one at a time; those that are answered go out beside each other.
const ASKS_IN_FLIGHT_MAX: usize = 64;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
