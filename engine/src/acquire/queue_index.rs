//! The callers of a key that has more than one, first come first served. Pure.
//!
//! Every lookup uses an index: by the caller's number, by its scope, and by the moments of [`CallerDeadlines`]. So the
//! cost per caller is the same with 100 and with 100,000 other callers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    caller::{Caller, CallerId, ScopeId},
    caller_deadlines::{CallerDeadlines, Coming, Place},
};
use crate::{clock::Instant, lease::shared::Terms, transport::HoldKind};

/// A caller and its arrival number.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Queued<S> {
    pub(crate) coming: Coming,
    pub(crate) caller: Caller<S>,
}

/// Callers in the order in which they are served.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Index<S> {
    callers: BTreeMap<Place, Box<Queued<S>>>,
    places: BTreeMap<CallerId, Place>,
    scopes: BTreeSet<(ScopeId, Place)>,
    /// The places of the callers that want to write. Empty for exclusive locks.
    writers: BTreeSet<Place>,
    pub(crate) limits: CallerDeadlines,
    /// How many callers were looked at one by one.
    #[cfg(test)]
    pub(crate) looks: std::cell::Cell<u64>,
}

impl<S> Default for Index<S> {
    fn default() -> Self {
        Self {
            callers: BTreeMap::new(),
            places: BTreeMap::new(),
            scopes: BTreeSet::new(),
            writers: BTreeSet::new(),
            limits: CallerDeadlines::default(),
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

impl<S> Index<S> {
    pub(crate) fn len(&self) -> usize {
        self.callers.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    pub(crate) fn head(&self) -> Option<&Caller<S>> {
        self.callers.first_key_value().map(|(_, queued)| &queued.caller)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Caller<S>> {
        self.callers.values().map(|queued| &queued.caller).inspect(|_| self.note_look())
    }

    pub(crate) fn push_back(&mut self, queued: Box<Queued<S>>) {
        let place = self.callers.last_key_value().map_or(0, |(last, _)| last + 1);
        self.put(place, queued);
    }

    pub(crate) fn push_front(&mut self, queued: Box<Queued<S>>) {
        let place = self.callers.first_key_value().map_or(0, |(first, _)| first - 1);
        self.put(place, queued);
    }

    /// The first caller of this scope.
    pub(crate) fn of_scope(&self, scope: ScopeId) -> Option<&Caller<S>> {
        self.callers.get(&self.place_of_scope(scope)?).map(|queued| &queued.caller)
    }

    /// This caller, if it is queued.
    pub(crate) fn get(&self, id: CallerId) -> Option<&Caller<S>> {
        self.callers.get(self.places.get(&id)?).map(|queued| &queued.caller)
    }

    /// Removes this caller.
    pub(crate) fn take(&mut self, id: CallerId) -> Option<Caller<S>> {
        let place = *self.places.get(&id)?;
        self.take_at(place)
    }

    /// Removes the first caller that `is_it` picks.
    pub(crate) fn take_first(&mut self, is_it: impl Fn(&Caller<S>) -> bool) -> Option<Caller<S>> {
        let mut callers = self.callers.iter().inspect(|_| self.note_look());
        let place = *callers.find(|(_, queued)| is_it(&queued.caller))?.0;
        drop(callers);
        self.take_at(place)
    }

    /// Removes, in order, the readers before the first writer that may share one lease with these terms.
    pub(crate) fn take_readers(&mut self, terms: Terms) -> Vec<Caller<S>> {
        let end = self.writers.first().copied().unwrap_or(Place::MAX);
        let before = self.callers.range(..end).inspect(|_| self.note_look());
        let shares = before.filter(|(_, queued)| queued.caller.may_share(terms));
        let places: Vec<Place> = shares.map(|(place, _)| *place).collect();
        places.into_iter().filter_map(|place| self.take_at(place)).collect()
    }

    pub(crate) fn has_writers(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Removes every caller of this scope, in order.
    pub(crate) fn take_scope(&mut self, scope: ScopeId) -> Vec<Caller<S>> {
        std::iter::from_fn(|| self.take_at(self.place_of_scope(scope)?)).collect()
    }

    /// Removes the callers that `first` finds, one after the other, as long as `is_it` picks the arrival moment of
    /// each.
    pub(crate) fn take_while(
        &mut self,
        first: impl Fn(&CallerDeadlines) -> Option<(Instant, Place)>,
        is_it: impl Fn(Instant) -> bool,
    ) -> Vec<Caller<S>> {
        let next = || {
            let (_, place) = first(&self.limits).filter(|(came, _)| is_it(*came))?;
            self.take_at(place)
        };
        std::iter::from_fn(next).collect()
    }

    /// Removes the callers whose wait has ended and for whose arrival number `leaves` holds. The other callers whose
    /// wait has ended stay queued, for at most `stay`.
    pub(crate) fn take_ended(
        &mut self,
        now: Instant,
        stay: Duration,
        leaves: impl Fn(Coming) -> bool,
    ) -> Vec<(Coming, Caller<S>)> {
        let mut ended = Vec::new();
        while let Some((_, place)) = self.limits.first_stayed().filter(|(coming, _)| leaves(*coming)) {
            ended.extend(self.take_queued(place));
        }
        while let Some((end, place)) = self.limits.first_end().filter(|(end, _)| *end <= now) {
            let Some(Queued { coming, caller }) = self.callers.get(&place).map(|queued| &**queued) else {
                break;
            };
            self.note_look();
            let may_stay = !leaves(*coming) && end + stay > now;
            if !may_stay || !self.limits.stay((*coming, place), caller, end + stay) {
                ended.extend(self.take_queued(place));
            }
        }
        ended.into_iter().map(|Queued { coming, caller }| (coming, caller)).collect()
    }

    /// All callers, in order.
    pub(crate) fn into_callers(self) -> impl Iterator<Item = Caller<S>> {
        self.callers.into_values().map(|queued| queued.caller)
    }

    fn put(&mut self, place: Place, queued: Box<Queued<S>>) {
        let caller = &queued.caller;
        self.places.insert(caller.id, place);
        self.scopes.extend(caller.scope.map(|scope| (scope, place)));
        self.limits.add(place, caller);
        self.writers.extend((caller.terms.kind == HoldKind::Write).then_some(place));
        self.callers.insert(place, queued);
    }

    fn take_at(&mut self, place: Place) -> Option<Caller<S>> {
        self.take_queued(place).map(|queued| queued.caller)
    }

    fn take_queued(&mut self, place: Place) -> Option<Queued<S>> {
        let queued = *self.callers.remove(&place)?;
        self.note_look();
        let Queued { coming, caller } = &queued;
        self.places.remove(&caller.id);
        caller.scope.map(|scope| self.scopes.remove(&(scope, place)));
        self.limits.remove((*coming, place), caller);
        if caller.terms.kind == HoldKind::Write {
            self.writers.remove(&place);
        }
        Some(queued)
    }

    fn place_of_scope(&self, scope: ScopeId) -> Option<Place> {
        let places = self.scopes.range((scope, Place::MIN)..=(scope, Place::MAX));
        places.map(|(_, place)| *place).next()
    }

    fn note_look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }
}
