//! The callers of a key, first come first served. Pure.
//!
//! Most keys have one caller at a time. So a single caller is kept without any index. A second caller moves both into an
//! [`Index`].

use std::time::Duration;

use super::{
    caller::{Caller, CallerId, Patience, ScopeId},
    caller_deadlines::{CallerDeadlines, Coming},
    queue_index::{Index, Queued},
};
use crate::{clock::Instant, lease::shared::Terms, transport::HoldKind};

/// Callers in the order in which they are served.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Queue<S> {
    /// The only caller, if it joined an empty queue.
    alone: Option<Queued<S>>,
    index: Option<Box<Index<S>>>,
    /// The number of callers that have joined so far.
    came: Coming,
    /// How often a caller was put at the head again.
    returned: u64,
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self { alone: None, index: None, came: 0, returned: 0 }
    }
}

impl<S> Queue<S> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.alone.is_some()) + self.index.as_ref().map_or(0, |index| index.len())
    }

    /// How many callers were looked at one by one.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.looks.get())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_none() && self.index.is_none()
    }

    pub(crate) fn head(&self) -> Option<&Caller<S>> {
        self.alone().or_else(|| self.index.as_ref()?.head())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Caller<S>> {
        self.alone().into_iter().chain(self.index.iter().flat_map(|index| index.iter()))
    }

    /// The number of callers that have joined so far.
    pub(crate) fn came(&self) -> Coming {
        self.came
    }

    /// How often a caller was put at the head again.
    pub(crate) fn returned(&self) -> u64 {
        self.returned
    }

    pub(crate) fn push_back(&mut self, caller: Caller<S>) {
        self.came += 1;
        let queued = Queued { coming: self.came, caller };
        match self.is_empty() {
            true => self.alone = Some(queued),
            false => self.index().push_back(Box::new(queued)),
        }
    }

    /// Puts a caller that had joined before at the head again.
    pub(crate) fn push_front(&mut self, caller: Caller<S>) {
        let queued = Queued { coming: 0, caller };
        self.returned += 1;
        match self.is_empty() {
            true => self.alone = Some(queued),
            false => self.index().push_front(Box::new(queued)),
        }
    }

    /// The first caller of this scope.
    pub(crate) fn of_scope(&self, scope: ScopeId) -> Option<&Caller<S>> {
        match self.alone() {
            Some(caller) => Some(caller).filter(|caller| caller.scope == Some(scope)),
            None => self.index.as_ref()?.of_scope(scope),
        }
    }

    /// This caller, if it is queued.
    pub(crate) fn get(&self, id: CallerId) -> Option<&Caller<S>> {
        match self.alone() {
            Some(caller) => Some(caller).filter(|caller| caller.id == id),
            None => self.index.as_ref()?.get(id),
        }
    }

    /// Removes this caller.
    pub(crate) fn take(&mut self, id: CallerId) -> Option<Caller<S>> {
        self.take_alone(|caller| caller.id == id).or_else(|| self.take_from_index(|index| index.take(id))?)
    }

    /// Removes the first caller with this kind and ttl.
    pub(crate) fn take_first(&mut self, kind: HoldKind, ttl: Duration) -> Option<Caller<S>> {
        let is_it = |caller: &Caller<S>| (caller.terms.kind, caller.terms.ttl) == (kind, ttl);
        self.take_alone(is_it).or_else(|| self.take_from_index(|index| index.take_first(is_it))?)
    }

    /// Removes every caller of this kind, in order.
    pub(crate) fn take_kind(&mut self, kind: HoldKind) -> Vec<Caller<S>> {
        let is_it = |caller: &Caller<S>| caller.terms.kind == kind;
        self.take_several(is_it, |index| std::iter::from_fn(|| index.take_first(is_it)).collect())
    }

    /// Removes, in order, the readers that may share one lease with these terms: those outside of any scope before the
    /// first writer.
    pub(crate) fn take_readers(&mut self, terms: Terms) -> Vec<Caller<S>> {
        self.take_several(|caller| caller.may_share(terms), |index| index.take_readers(terms))
    }

    /// Whether a writer is queued.
    pub(crate) fn has_writers(&self) -> bool {
        match self.alone() {
            Some(caller) => caller.terms.kind == HoldKind::Write,
            None => self.index.as_ref().is_some_and(|index| index.has_writers()),
        }
    }

    /// Removes every caller of this scope, in order.
    pub(crate) fn take_scope(&mut self, scope: ScopeId) -> Vec<Caller<S>> {
        self.take_several(|caller| caller.scope == Some(scope), |index| index.take_scope(scope))
    }

    /// Removes, in the order of arrival, the callers that only try ([`Patience::Try`]) and whose arrival moment `is_it`
    /// picks.
    pub(crate) fn take_tries(&mut self, is_it: impl Fn(Instant) -> bool) -> Vec<Caller<S>> {
        if !self.first_try().is_some_and(&is_it) {
            return Vec::new(); // most often, and then nothing is collected
        }
        let picks = |caller: &Caller<S>| caller.patience == Patience::Try && is_it(caller.joined);
        self.take_several(picks, |index| index.take_while(CallerDeadlines::first_try, &is_it))
    }

    /// The same for the callers that wait ([`Patience::Wait`]).
    pub(crate) fn take_waits(&mut self, is_it: impl Fn(Instant) -> bool) -> Vec<Caller<S>> {
        let picks = |caller: &Caller<S>| caller.patience != Patience::Try && is_it(caller.joined);
        self.take_several(picks, |index| index.take_while(CallerDeadlines::first_wait, &is_it))
    }

    /// Whether [`take_ended`](Self::take_ended) may find a caller.
    pub(crate) fn may_have_ended(&self, now: Instant) -> bool {
        self.index.is_some() || self.first_end().is_some_and(|end| end <= now)
    }

    /// Removes the callers whose wait has ended and for whose arrival number `leaves` holds. The other callers whose
    /// wait has ended stay queued, for at most `stay`.
    pub(crate) fn take_ended(
        &mut self,
        now: Instant,
        stay: Duration,
        leaves: impl Fn(Coming) -> bool,
    ) -> Vec<(Coming, Caller<S>)> {
        let ended = self.index().take_ended(now, stay, leaves);
        self.forget_empty_index();
        ended
    }

    /// Removes every caller, in order.
    pub(crate) fn take_all(&mut self) -> Vec<Caller<S>> {
        let alone = self.alone.take().map(|queued| queued.caller);
        let others = self.index.take().into_iter().flat_map(|index| index.into_callers());
        alone.into_iter().chain(others).collect()
    }

    /// Makes the queue equal to a new one.
    pub(crate) fn clear(&mut self) {
        (self.alone, self.index) = (None, None);
        (self.came, self.returned) = (0, 0);
    }

    /// Whether the queue has a caller that only tries.
    pub(crate) fn has_tries(&self) -> bool {
        self.first_try().is_some()
    }

    /// When the first caller that only tries arrived.
    pub(crate) fn first_try(&self) -> Option<Instant> {
        let came = |caller: &Caller<S>| (caller.patience == Patience::Try).then_some(caller.joined);
        self.first(came, |limits| limits.first_try().map(|(came, _)| came))
    }

    /// When the first caller that waits arrived.
    pub(crate) fn first_wait(&self) -> Option<Instant> {
        let came = |caller: &Caller<S>| (caller.patience != Patience::Try).then_some(caller.joined);
        self.first(came, |limits| limits.first_wait().map(|(came, _)| came))
    }

    /// When the first wait ends. For a caller that stays queued after its wait: the last moment of its stay.
    pub(crate) fn first_end(&self) -> Option<Instant> {
        let end = |caller: &Caller<S>| match caller.patience {
            Patience::Wait(until) => until,
            Patience::Try => None,
        };
        self.first(end, |limits| limits.first_end().map(|(end, _)| end))
    }

    /// The moment before which no caller that stays queued after its wait leaves by the clock. `None`: no caller stays.
    pub(crate) fn stayed_until(&self) -> Option<Instant> {
        self.index.as_ref()?.limits.stayed_until() // a caller that stays is in the index
    }

    fn first(
        &self,
        of_one: impl Fn(&Caller<S>) -> Option<Instant>,
        of_many: impl Fn(&CallerDeadlines) -> Option<Instant>,
    ) -> Option<Instant> {
        match self.alone() {
            Some(caller) => of_one(caller),
            None => of_many(&self.index.as_ref()?.limits),
        }
    }

    fn take_alone(&mut self, picks: impl Fn(&Caller<S>) -> bool) -> Option<Caller<S>> {
        self.alone.take_if(|queued| picks(&queued.caller)).map(|queued| queued.caller)
    }

    fn take_from_index<T>(&mut self, take: impl FnOnce(&mut Index<S>) -> T) -> Option<T> {
        let taken = take(self.index.as_mut()?);
        self.forget_empty_index();
        Some(taken)
    }

    /// The only caller, if `picks` picks it, or the callers that `take` removes from the index.
    fn take_several(
        &mut self,
        picks: impl Fn(&Caller<S>) -> bool,
        take: impl FnOnce(&mut Index<S>) -> Vec<Caller<S>>,
    ) -> Vec<Caller<S>> {
        match self.take_from_index(take) {
            Some(taken) => taken,
            None => Vec::from_iter(self.take_alone(picks)),
        }
    }

    fn alone(&self) -> Option<&Caller<S>> {
        self.alone.as_ref().map(|queued| &queued.caller)
    }

    /// The index of all callers, created on first use.
    fn index(&mut self) -> &mut Index<S> {
        let index = self.index.get_or_insert_default();
        self.alone.take().into_iter().for_each(|first| index.push_back(Box::new(first)));
        index
    }

    fn forget_empty_index(&mut self) {
        self.index.take_if(|index| index.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquire::caller::Patience;

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
        let terms = Terms {
            kind: crate::transport::HoldKind::Exclusive,
            ttl,
            renewed: true,
            max_hold: None,
            labels: crate::metrics::LabelSet::DEFAULT,
        };
        let scope = (id >= 10).then(|| ScopeId::new(id / 10));
        Caller {
            id: CallerId(id),
            terms,
            side: terms.kind,
            patience,
            joined: at(id),
            scope,
            late: 0,
            reply_to: (),
        }
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
        assert_eq!(queue.take_first(HoldKind::Exclusive, Duration::from_secs(2)).unwrap().id.0, 1);
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
        assert!(queue.has_tries());
        assert_eq!(ids(&queue.take_tries(|came| came <= at(3))), [1]);
        assert_eq!(ids(&queue.take_waits(|came| came <= at(2))), [2]);
        assert_eq!(ids(&queue.take_tries(|_| true)), [4]);
        assert!(!queue.has_tries() && queue.first_end().is_none());
        assert_eq!(ids(queue.iter()), [3]);
    }

    #[test]
    fn a_caller_whose_wait_is_over_leaves_or_stays_for_a_while() {
        let mut queue = queue(&[(1, until(20)), (2, until(10)), (3, until(10)), (4, FOREVER)]);
        assert!(queue.take_ended(at(9), STAY, |_| true).is_empty());
        assert_eq!(ended(queue.take_ended(at(10), STAY, |coming| coming <= 2)), [(2, 2)]);
        assert_eq!(queue.first_end(), Some(at(15)));
        assert!(queue.take_ended(at(14), STAY, |_| false).is_empty(), "it stays");
        assert_eq!(ended(queue.take_ended(at(15), STAY, |_| false)), [(3, 3)]);
        assert!(queue.take_ended(at(20), STAY, |_| false).is_empty());
        assert_eq!(ended(queue.take_ended(at(21), STAY, |_| true)), [(1, 1)], "it had stayed");
        assert!(queue.first_end().is_none() && queue.stayed_until().is_none());
    }

    #[test]
    fn a_caller_that_stays_can_be_taken_out_by_its_number() {
        let mut queue = queue(&[(1, until(10))]);
        assert!(queue.take_ended(at(10), STAY, |_| false).is_empty());
        assert_eq!(queue.stayed_until(), Some(at(15)));
        assert!(queue.take(CallerId(1)).is_some());
        assert!(queue.first_end().is_none() && queue.stayed_until().is_none());
    }
}
