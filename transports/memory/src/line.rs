//! The line of one fair lock: the places of waiting owners in the order of arrival, and which of them are silent. Pure.
//!
//! A place is alive until a moment that each `Queue` and `Beat` of its owner moves on. At the first look after that
//! moment all silent places become suspects together and get time to beat: [`PATIENCE`], or [`PATIENCE_AFTER_STALL`] if
//! every place is silent for a while, because then it was the server that stood still. A suspect that has not beaten by
//! then is removed. A place that seems to be alive for longer than any beat lasts is silent too: the clock was set back.

use std::{collections::VecDeque, time::Duration};

use leasehold::{
    owner::Owner,
    transport::{PlaceTerms, ServerTime},
};

use crate::hold::expiry;

/// The places of one lock, the head first.
#[derive(Debug, Default)]
pub(crate) struct Line {
    places: VecDeque<Place>,
}

#[derive(Debug)]
struct Place {
    owner: Owner,
    alive_until: u64,
    suspect: bool,
    /// The moment until which the line is kept for this place, whoever looks.
    kept_until: u64,
}

impl Line {
    /// Judges the silent places. Called before every operation on the lock.
    pub(crate) fn judge(&mut self, at: ServerTime) {
        let now = at.micros;
        if self.places.iter().any(|place| place.is_silent(now)) {
            self.suspect_the_silent(at);
        }
        self.places.retain(|place| !(place.suspect && place.alive_until <= now));
    }

    fn suspect_the_silent(&mut self, at: ServerTime) {
        let stalled = at.micros.saturating_sub(micros(STALL_MIN));
        let was_away = self.places.iter().all(|place| place.alive_until <= stalled);
        let patience = if was_away { PATIENCE_AFTER_STALL } else { PATIENCE };
        for place in self.places.iter_mut().filter(|place| place.is_silent(at.micros)) {
            (place.suspect, place.alive_until) = (true, expiry(at, patience));
        }
    }

    /// The owner at the head.
    pub(crate) fn head(&self) -> Option<Owner> {
        self.places.front().map(|place| place.owner)
    }

    /// The owners, the head first.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> + '_ {
        self.places.iter().map(|place| place.owner)
    }

    /// How long until the head is removed if it stays silent.
    pub(crate) fn head_is_kept_for(&self, at: ServerTime) -> Duration {
        let until = self.places.front().map_or(0, |head| match head.suspect {
            true => head.alive_until,
            false => head.alive_until.saturating_add(micros(PATIENCE)),
        });
        Duration::from_micros(until.saturating_sub(at.micros))
    }

    /// The number of places before that of this owner.
    pub(crate) fn ahead_of(&self, owner: Owner) -> Option<u32> {
        let place = self.places.iter().position(|place| place.owner == owner)?;
        Some(u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// Makes a place at the end of the line, unless the owner has one. Either way it is alive now.
    pub(crate) fn join(&mut self, owner: Owner, terms: PlaceTerms, at: ServerTime) {
        if !self.beat(owner, terms, at) {
            self.places.push_back(Place::new(owner, terms, at));
        }
    }

    /// The owner still wants its place. `false`: it has none.
    pub(crate) fn beat(&mut self, owner: Owner, terms: PlaceTerms, at: ServerTime) -> bool {
        match self.places.iter_mut().find(|place| place.owner == owner) {
            Some(place) => {
                *place = Place::new(owner, terms, at);
                true
            }
            None => false,
        }
    }

    /// Removes the place of this owner. `false`: it has none.
    pub(crate) fn leave(&mut self, owner: Owner) -> bool {
        match self.places.iter().position(|place| place.owner == owner) {
            Some(place) => self.places.remove(place).is_some(),
            None => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing of the line is kept any more: no place was confirmed for a long time.
    pub(crate) fn is_forgotten(&self, at: ServerTime) -> bool {
        self.places.iter().all(|place| place.kept_until <= at.micros)
    }
}

impl Place {
    fn new(owner: Owner, terms: PlaceTerms, at: ServerTime) -> Self {
        let (alive_until, kept_until) = (expiry(at, terms.beat()), expiry(at, terms.wait()));
        Self { owner, alive_until, suspect: false, kept_until }
    }

    fn is_silent(&self, now: u64) -> bool {
        let is_from_later = self.alive_until > now.saturating_add(micros(BEAT_MAX));
        is_from_later || (!self.suspect && self.alive_until <= now)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How long a silent place may take to beat after the first look.
const PATIENCE: Duration = Duration::from_millis(2_400);
/// The same if the server was away, so that all beats are late.
const PATIENCE_AFTER_STALL: Duration = Duration::from_secs(4);
/// Every place is silent for this long: the server was away.
const STALL_MIN: Duration = Duration::from_secs(1);
/// No beat keeps a place alive for longer.
const BEAT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
