//! The callers of a key, first come first served. Pure.
//!
//! It counts those whose patience ends, so that an entry whose callers all wait without limit looks at none of them.

use std::collections::VecDeque;

use super::caller::{Caller, Patience};

/// Callers in the order in which they are served.
#[derive(Debug)]
pub(crate) struct Queue<S> {
    callers: VecDeque<Caller<S>>,
    tries: usize,
    limited: usize,
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self { callers: VecDeque::new(), tries: 0, limited: 0 }
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
        self.callers.front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Caller<S>> {
        self.callers.iter()
    }

    /// Whether somebody only tries.
    pub(crate) fn has_tries(&self) -> bool {
        self.tries > 0
    }

    /// Whether somebody's patience ends by the clock alone.
    pub(crate) fn has_limits(&self) -> bool {
        self.tries + self.limited > 0
    }

    pub(crate) fn push_back(&mut self, caller: Caller<S>) {
        self.count_in(&caller);
        self.callers.push_back(caller);
    }

    pub(crate) fn push_front(&mut self, caller: Caller<S>) {
        self.count_in(&caller);
        self.callers.push_front(caller);
    }

    /// Takes out the first caller that `is_it` picks.
    pub(crate) fn take_first(&mut self, is_it: impl FnMut(&Caller<S>) -> bool) -> Option<Caller<S>> {
        let place = self.callers.iter().position(is_it)?;
        let caller = self.callers.remove(place)?;
        self.count_out(&caller);
        self.shed();
        Some(caller)
    }

    /// Takes out every caller for whom `pick` finds something, in order. One turn of the ring: no caller is moved twice.
    pub(crate) fn take_where<R>(
        &mut self,
        mut pick: impl FnMut(&Caller<S>) -> Option<R>,
    ) -> Vec<(Caller<S>, R)> {
        let mut taken = Vec::new();
        for _ in 0..self.callers.len() {
            let Some(caller) = self.callers.pop_front() else { break };
            match pick(&caller) {
                Some(found) => {
                    self.count_out(&caller);
                    taken.push((caller, found));
                }
                None => self.callers.push_back(caller),
            }
        }
        self.shed();
        taken
    }

    /// Takes out everybody.
    pub(crate) fn take_all(&mut self) -> VecDeque<Caller<S>> {
        std::mem::take(self).callers
    }

    // A lease may be held for days with nobody queued, and many of them are.
    fn shed(&mut self) {
        if self.callers.is_empty() {
            self.callers = VecDeque::new();
        }
    }

    fn count_in(&mut self, caller: &Caller<S>) {
        match caller.patience {
            Patience::Try => self.tries += 1,
            Patience::Wait(Some(_)) => self.limited += 1,
            Patience::Wait(None) => {}
        }
    }

    fn count_out(&mut self, caller: &Caller<S>) {
        match caller.patience {
            Patience::Try => self.tries -= 1,
            Patience::Wait(Some(_)) => self.limited -= 1,
            Patience::Wait(None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{clock::Instant, contention::caller::CallerId, lease::shared::Terms};

    const SOON: Patience = Patience::Wait(Some(Instant::from_nanos(1)));

    fn queue(patiences: &[Patience]) -> Queue<()> {
        let mut queue = Queue::default();
        for (id, patience) in (0..).zip(patiences) {
            let terms = Terms {
                ttl: Duration::from_secs(1),
                renewed: true,
                max_hold: None,
                class: crate::metrics::ClassId::DEFAULT,
            };
            let joined = Instant::default();
            let id = CallerId(id);
            queue.push_back(Caller { id, terms, patience: *patience, joined, scope: None, seat: () });
        }
        queue
    }

    fn ids<'a>(callers: impl Iterator<Item = &'a Caller<()>>) -> Vec<u64> {
        callers.map(|caller| caller.id.0).collect()
    }

    #[test]
    fn who_is_taken_out_leaves_the_others_in_order() {
        let mut queue = queue(&[Patience::Wait(None); 6]);
        let taken = queue.take_where(|caller| (caller.id.0 % 3 == 1).then_some(()));
        assert_eq!(ids(taken.iter().map(|(caller, ())| caller)), [1, 4]);
        assert_eq!(ids(queue.iter()), [0, 2, 3, 5]);
        let taken = queue.take_first(|caller| caller.id.0 > 0).unwrap();
        assert_eq!((taken.id.0, ids(queue.iter())), (2, vec![0, 3, 5]));
        queue.push_front(taken);
        assert_eq!(ids(queue.iter()), [2, 0, 3, 5]);
    }

    #[test]
    fn an_empty_queue_keeps_no_room() {
        let mut queue = queue(&[SOON; 3]);
        queue.take_first(|_| true);
        assert!(queue.callers.capacity() > 0);
        queue.take_where(|_| Some(()));
        assert_eq!(queue.callers.capacity(), 0);
    }

    #[test]
    fn callers_without_limit_are_never_looked_at() {
        let forever = queue(&[Patience::Wait(None); 3]);
        assert!(!forever.has_limits() && !forever.has_tries());
        let mut mixed = queue(&[Patience::Try, SOON, Patience::Wait(None)]);
        assert!(mixed.has_limits() && mixed.has_tries());
        mixed.take_first(|_| true);
        assert!(mixed.has_limits() && !mixed.has_tries());
        mixed.take_where(|caller| (caller.patience == SOON).then_some(()));
        assert!(!mixed.has_limits());
        let mut again = queue(&[Patience::Try, SOON]);
        assert_eq!((again.take_all().len(), again.len(), again.has_limits()), (2, 0, false));
    }
}
