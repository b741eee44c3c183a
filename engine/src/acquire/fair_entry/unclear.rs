//! The places without a definite answer, and their callers, which leave as `Unavailable`. Pure.
//!
//! Each place has a time of its own, because a server may answer some places and refuse others: a server without memory
//! keeps the line and grants to the head, and makes no new place.

use super::{FairEntry, FairPace, PlaceId};
use crate::{
    acquire::{
        caller::{Leaving, Refusal},
        queue::Queue,
    },
    clock::Instant,
};

impl FairEntry {
    /// This place has had no definite answer since `since`, if it is not known to be without one for longer.
    pub(super) fn mark_unclear(&mut self, id: PlaceId, since: Instant) {
        let is_clear = |place: &&mut super::Place| !place.deserted && place.unclear_since.is_none();
        let Some(place) = self.places.get_mut(&id).filter(is_clear) else { return };
        place.unclear_since = Some(since);
        self.unclear_places.insert((since, id));
    }

    /// This place has had a definite answer, or needs none any more.
    pub(super) fn mark_clear(&mut self, id: PlaceId) {
        if let Some(since) = self.places.get_mut(&id).and_then(|place| place.unclear_since.take()) {
            self.unclear_places.remove(&(since, id));
        }
    }

    /// The place has another caller now. An answer counts for the caller from its own arrival on.
    pub(super) fn pass_on_unclear(&mut self, id: PlaceId, joined: Instant) {
        let Some(place) = self.places.get(&id) else { return };
        let since = place.unclear_since.map(|since| since.max(joined));
        let since = since.or((!place.is_in_line()).then_some(joined));
        self.mark_clear(id);
        since.into_iter().for_each(|since| self.mark_unclear(id, since));
    }

    /// While asks fail, the places that are due wait for the place that is asked for.
    pub(super) fn mark_due_unclear(&mut self, now: Instant) {
        let due: Vec<_> = self.due.iter().map(|(_, id)| *id).collect();
        due.into_iter().for_each(|id| self.mark_unclear(id, now));
    }

    /// Removes and returns the callers whose own place has had no definite answer for `unavailable_after`.
    pub(super) fn take_unclear<S>(
        &mut self,
        callers: &mut Queue<S>,
        now: Instant,
        pace: &FairPace,
    ) -> Vec<Leaving<S>> {
        let mut leaving = Vec::new();
        while let Some((_, id)) = self.first_unclear(pace).filter(|(over, _)| *over <= now) {
            self.mark_clear(id);
            let caller = self.places.get(&id).and_then(|place| callers.take(place.caller));
            let last_error = self.ask_error.as_deref().cloned();
            let refusal = Refusal::Unavailable { after: pace.unavailable_after, last_error };
            leaving.extend(caller.map(|caller| Leaving { caller, refusal }));
        }
        leaving
    }

    /// The first moment at which a place has been without a definite answer for too long.
    pub(super) fn first_unclear(&self, pace: &FairPace) -> Option<(Instant, PlaceId)> {
        self.unclear_places.first().map(|(since, id)| (*since + pace.unavailable_after, *id))
    }
}
