//! Decides what a fair entry does next.

use std::time::Duration;

use super::{ASKS_IN_FLIGHT_MAX, Beat, Cause, FairEntry, FairPace, PlaceId, Rule};
use crate::{
    acquire::{clarity::is_paced, queue::Queue},
    clock::Instant,
    lease::unconfirmed_owner::UnconfirmedOwner,
    metrics::LabelSet,
    owner::{Owner, OwnerMint},
    transport::Op,
};

/// What to do now, all of it at once, and until when to wait afterwards.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The asks to send, in this order.
    pub(crate) asks: Vec<Ask>,
    /// The beats to send, in one batch.
    pub(crate) beats: Vec<Beat>,
    /// The places whose turn is to be watched from now on, and those whose watch is over.
    pub(crate) listen: Vec<(PlaceId, Owner)>,
    pub(crate) ignore: Vec<PlaceId>,
    /// The owners to be closed.
    pub(crate) closing: Vec<UnconfirmedOwner>,
    /// An ask is due that needs a permit of the retry rate. Since when its caller has waited.
    pub(crate) retry_since: Option<Instant>,
    /// The next step is due at this moment at the latest.
    pub(crate) until: Option<Instant>,
    /// The number of places that were lost and have joined again at the tail.
    pub(crate) places_lost: u64,
    /// No caller and no place is left.
    pub(crate) is_done: bool,
}

/// One ask to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) place: PlaceId,
    pub(crate) owner: Owner,
    pub(crate) op: Op,
    pub(crate) ttl: Duration,
    pub(crate) labels: LabelSet,
    pub(crate) cause: Cause,
    /// When the notice came that led to the ask.
    pub(crate) noticed: Option<Instant>,
}

impl FairEntry {
    /// Decides what to do next. `is_permitted`: one ask that needs a permit may go out. Callers whose time is over have been removed
    /// before.
    pub(crate) fn take_step<S>(
        &mut self,
        callers: &Queue<S>,
        now: Instant,
        mint: &OwnerMint,
        pace: &FairPace,
        is_permitted: bool,
    ) -> Plan {
        self.sync(callers, now, mint, pace);
        let (asks, retry_since) = self.take_asks(callers, now, mint, pace, is_permitted);
        let beats = self.take_beats(now);
        let is_done = callers.is_empty() && self.places.is_empty() && self.batches_in_flight == 0;
        Plan {
            asks,
            beats,
            retry_since,
            listen: std::mem::take(&mut self.listen),
            ignore: std::mem::take(&mut self.ignore),
            closing: std::mem::take(&mut self.closing),
            until: self.next_event(callers, retry_since.is_some(), pace),
            places_lost: std::mem::take(&mut self.places_lost),
            is_done,
        }
    }

    fn take_asks<S>(
        &mut self,
        callers: &Queue<S>,
        now: Instant,
        mint: &OwnerMint,
        pace: &FairPace,
        mut is_permitted: bool,
    ) -> (Vec<Ask>, Option<Instant>) {
        let mut asks = Vec::new();
        while let Some(id) = self.next_due(now) {
            if self.needs_permit(id) && !std::mem::take(&mut is_permitted) {
                return (asks, self.places.get(&id).map(|place| place.joined));
            }
            asks.extend(self.take_ask(id, callers.came(), now, mint, pace));
        }
        (asks, None)
    }

    // While asks fail, one of them at a time is repeated.
    fn next_due(&self, now: Instant) -> Option<PlaceId> {
        let is_open = match self.failures {
            0 => self.asks_in_flight < ASKS_IN_FLIGHT_MAX,
            _ => self.asks_in_flight == 0 && now >= self.retry_at,
        };
        let first = if self.lacks(Rule::FirstComeFirst) { self.due.last() } else { self.due.first() };
        first.filter(|(moment, _)| is_open && *moment <= now).map(|(_, id)| *id)
    }

    fn needs_permit(&self, id: PlaceId) -> bool {
        let planned = self.places.get(&id).and_then(|place| place.next);
        self.failures > 0 || planned.is_some_and(|(_, cause)| is_paced(cause))
    }

    fn take_ask(
        &mut self,
        id: PlaceId,
        came: u64,
        now: Instant,
        mint: &OwnerMint,
        pace: &FairPace,
    ) -> Option<Ask> {
        let tries = self.lacks(Rule::TryOnly);
        let forgets = self.lacks(Rule::KeepOwner);
        let place = self.places.get_mut(&id)?;
        let (moment, cause) = place.next.take()?;
        self.due.remove(&(moment, id));
        if forgets && !place.attempt.open.is_closed() {
            place.forget_owner(mint);
        }
        place.asking = Some(came);
        place.follow_up = false;
        self.asks_in_flight += 1;
        let ttl = place.attempt.ttl;
        let joins = Op::Queue { ttl, place: pace.terms };
        let ask = Ask {
            place: id,
            owner: place.attempt.owner,
            op: if place.waits || tries { joins } else { Op::Acquire { ttl } },
            ttl,
            labels: place.labels,
            cause,
            noticed: place.noticed.take(),
        };
        self.note_sent(now);
        self.mark_unclear(id, now);
        Some(ask)
    }

    /// Records until when the ask for this place may be executed, as it is being sent.
    pub(crate) fn note_limit(&mut self, id: PlaceId, execute_by: Instant) {
        if let Some(place) = self.places.get_mut(&id) {
            place.execute_by = Some(execute_by);
        }
    }

    fn next_event<S>(&self, callers: &Queue<S>, awaits_permit: bool, pace: &FairPace) -> Option<Instant> {
        let first_due = self.due.first().map(|(moment, _)| *moment);
        let ask = match self.failures {
            _ if awaits_permit => None,
            0 => first_due.filter(|_| self.asks_in_flight < ASKS_IN_FLIGHT_MAX),
            _ => first_due.filter(|_| self.asks_in_flight == 0).map(|due| due.max(self.retry_at)),
        };
        let beats = [self.next_beat, self.next_check.filter(|_| self.batches_in_flight == 0)];
        beats.into_iter().chain([ask, self.next_give_up(callers, pace)]).flatten().min()
    }
}
