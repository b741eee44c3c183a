//! The callers of a key, first come first served. Pure.
//!
//! Whatever is wanted of it is found by an index, so that a caller costs the same with 100 and with 100,000 others: by
//! its number, by its scope, and by the moments of [`Limits`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    caller::{Caller, CallerId, ScopeId},
    limits::{Coming, Limits, Place},
};
use crate::clock::Instant;

/// Callers in the order in which they are served.
#[derive(Debug)]
pub(crate) struct Queue<S> {
    callers: BTreeMap<Place, Box<Queued<S>>>,
    places: BTreeMap<CallerId, Place>,
    scopes: BTreeSet<(ScopeId, Place)>,
    limits: Limits,
    /// How many have come.
    came: Coming,
    /// How many callers were looked at one by one.
    #[cfg(test)]
    pub(crate) looks: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Queued<S> {
    coming: Coming,
    caller: Caller<S>,
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self {
            callers: BTreeMap::new(),
            places: BTreeMap::new(),
            scopes: BTreeSet::new(),
            limits: Limits::default(),
            came: 0,
            #[cfg(test)]
            looks: Default::default(),
        }
    }
}

impl<S> Queue<S> {
    #[cfg(test)]
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

    /// How many callers have come so far.
    pub(crate) fn came(&self) -> Coming {
        self.came
    }

    /// When the callers leave by the clock.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn push_back(&mut self, caller: Caller<S>) {
        let place = self.callers.last_key_value().map_or(0, |(last, _)| last + 1);
        self.came += 1;
        self.put((self.came, place), caller);
    }

    /// A caller that had come before is the head again.
    pub(crate) fn push_front(&mut self, caller: Caller<S>) {
        let place = self.callers.first_key_value().map_or(0, |(first, _)| first - 1);
        self.put((0, place), caller);
    }

    /// The first caller of this scope.
    pub(crate) fn of_scope(&self, scope: ScopeId) -> Option<&Caller<S>> {
        self.callers.get(&self.place_of_scope(scope)?).map(|queued| &queued.caller)
    }

    /// Takes out this caller.
    pub(crate) fn take(&mut self, id: CallerId) -> Option<Caller<S>> {
        let place = *self.places.get(&id)?;
        self.take_at(place)
    }

    /// Takes out the first caller with this ttl.
    pub(crate) fn take_first(&mut self, ttl: Duration) -> Option<Caller<S>> {
        let mut callers = self.callers.iter().inspect(|_| self.note_look());
        let place = *callers.find(|(_, queued)| queued.caller.terms.ttl == ttl)?.0;
        drop(callers);
        self.take_at(place)
    }

    /// Takes out every caller of this scope, in order.
    pub(crate) fn take_scope(&mut self, scope: ScopeId) -> Vec<Caller<S>> {
        std::iter::from_fn(|| self.take_at(self.place_of_scope(scope)?)).collect()
    }

    /// Takes out, in the order in which they came, the callers that only try and came at a moment that `is_it` picks.
    pub(crate) fn take_tries(&mut self, is_it: impl Fn(Instant) -> bool) -> Vec<Caller<S>> {
        self.take_while(Limits::first_try, is_it)
    }

    /// The same of those who wait.
    pub(crate) fn take_waits(&mut self, is_it: impl Fn(Instant) -> bool) -> Vec<Caller<S>> {
        self.take_while(Limits::first_wait, is_it)
    }

    /// Takes out the callers whose wait is over, if `leaves` says so of their coming. The others stay, for `stay` at most.
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

    /// Takes out every caller, in order.
    pub(crate) fn take_all(&mut self) -> Vec<Caller<S>> {
        let before = std::mem::take(self);
        self.came = before.came;
        before.callers.into_values().map(|queued| queued.caller).collect()
    }

    fn take_while(
        &mut self,
        first: impl Fn(&Limits) -> Option<(Instant, Place)>,
        is_it: impl Fn(Instant) -> bool,
    ) -> Vec<Caller<S>> {
        let next = || {
            let (_, place) = first(&self.limits).filter(|(came, _)| is_it(*came))?;
            self.take_at(place)
        };
        std::iter::from_fn(next).collect()
    }

    fn put(&mut self, (coming, place): (Coming, Place), caller: Caller<S>) {
        self.places.insert(caller.id, place);
        self.scopes.extend(caller.scope.map(|scope| (scope, place)));
        self.limits.add(place, &caller);
        self.callers.insert(place, Box::new(Queued { coming, caller }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contention::caller::Patience, lease::shared::Terms};

    const FOREVER: Patience = Patience::Wait(None);
    const STAY: Duration = Duration::from_millis(5);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn until(ms: u64) -> Patience {
        Patience::Wait(Some(at(ms)))
    }

    fn caller(id: u64, patience: Patience) -> Caller<()> {
        let ttl = Duration::from_secs(1 + id % 2);
        let terms = Terms { ttl, renewed: true, max_hold: None, class: crate::metrics::ClassId::DEFAULT };
        let scope = (id >= 10).then(|| ScopeId::new(id / 10));
        Caller { id: CallerId(id), terms, patience, joined: at(id), scope, seat: () }
    }

    fn queue(callers: &[(u64, Patience)]) -> Queue<()> {
        let mut queue = Queue::default();
        callers.iter().for_each(|(id, patience)| queue.push_back(caller(*id, *patience)));
        queue
    }

    fn ids<'a>(callers: impl IntoIterator<Item = &'a Caller<()>>) -> Vec<u64> {
        callers.into_iter().map(|caller| caller.id.0).collect()
    }

    fn ended(callers: Vec<(Coming, Caller<()>)>) -> Vec<(Coming, u64)> {
        callers.into_iter().map(|(coming, caller)| (coming, caller.id.0)).collect()
    }

    #[test]
    fn who_is_taken_out_leaves_the_others_in_order() {
        let mut queue = queue(&[0, 1, 2, 3, 4].map(|id| (id, FOREVER)));
        assert_eq!(queue.take(CallerId(2)).unwrap().id.0, 2);
        assert!(queue.take(CallerId(2)).is_none());
        assert_eq!(queue.take_first(Duration::from_secs(2)).unwrap().id.0, 1);
        let head = queue.take(CallerId(0)).unwrap();
        assert_eq!(ids(queue.iter()), [3, 4]);
        queue.push_front(head);
        queue.push_back(caller(5, FOREVER));
        assert_eq!((ids(queue.iter()), queue.head().unwrap().id.0), (vec![0, 3, 4, 5], 0));
        assert_eq!((ids(&queue.take_all()), queue.is_empty()), (vec![0, 3, 4, 5], true));
    }

    #[test]
    fn callers_of_a_scope_are_found_and_taken_in_order() {
        let mut queue = queue(&[20, 10, 1, 11, 21].map(|id| (id, FOREVER)));
        assert_eq!(queue.of_scope(ScopeId::new(1)).unwrap().id.0, 10);
        assert_eq!(ids(&queue.take_scope(ScopeId::new(1))), [10, 11]);
        assert!(queue.of_scope(ScopeId::new(1)).is_none());
        assert_eq!(ids(queue.iter()), [20, 1, 21]);
    }

    #[test]
    fn tries_and_waits_are_told_apart_and_taken_by_when_they_came() {
        let mut queue = queue(&[(3, FOREVER), (1, Patience::Try), (2, until(9)), (4, Patience::Try)]);
        assert!(queue.limits().has_tries());
        assert_eq!(ids(&queue.take_tries(|came| came <= at(3))), [1]);
        assert_eq!(ids(&queue.take_waits(|came| came <= at(2))), [2]);
        assert_eq!(ids(&queue.take_tries(|_| true)), [4]);
        assert!(!queue.limits().has_tries() && queue.limits().first_end().is_none());
        assert_eq!(ids(queue.iter()), [3]);
    }

    #[test]
    fn a_caller_whose_wait_is_over_leaves_or_stays_for_a_while() {
        let mut queue = queue(&[(1, until(20)), (2, until(10)), (3, until(10)), (4, FOREVER)]);
        assert!(queue.take_ended(at(9), STAY, |_| true).is_empty());
        assert_eq!(ended(queue.take_ended(at(10), STAY, |coming| coming <= 2)), [(2, 2)]);
        assert_eq!(queue.limits().first_end(), Some((at(15), 2)));
        assert!(queue.take_ended(at(14), STAY, |_| false).is_empty(), "it stays");
        assert_eq!(ended(queue.take_ended(at(15), STAY, |_| false)), [(3, 3)]);
        assert!(queue.take_ended(at(20), STAY, |_| false).is_empty());
        assert_eq!(ended(queue.take_ended(at(21), STAY, |_| true)), [(1, 1)], "it had stayed");
        assert!(queue.limits().first_end().is_none() && queue.limits().stayed_until().is_none());
    }

    #[test]
    fn a_caller_that_stays_can_be_taken_out_by_its_number() {
        let mut queue = queue(&[(1, until(10))]);
        assert!(queue.take_ended(at(10), STAY, |_| false).is_empty());
        assert_eq!(queue.limits().stayed_until(), Some(at(15)));
        assert!(queue.take(CallerId(1)).is_some());
        assert!(queue.limits().first_end().is_none() && queue.limits().first_stayed().is_none());
    }
}
