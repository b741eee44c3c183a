//! The work that waits for a permit of one node: a place in a limit, or in a rate. Pure.
//!
//! There are three kinds of work, with a queue each, because none of them may delay the calls of single callers:
//! - *Retries*: entries that ask again by themselves. After a reconnect all of them want to ask at once. At most 5,000 start
//!   per second, the caller that has waited longest first (promise L2).
//! - *Bulk*: calls of lists, `acquire_all` and `release_all`. At most `bulk_in_flight_max` are unanswered.
//! - *Closing*: releases of owners that no server has confirmed. At most 1,024 are unanswered. While the node is silent, one starts
//!   each 50 ms, in turn; as soon as the node answers anything, the others follow.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use super::rate::Rate;
use crate::clock::Instant;

/// The order in a queue: the lowest rank goes first. The second part is a number that no other work has.
pub(crate) type Rank = (Instant, u64);

/// The limit of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// How many permits may be in use at a time.
    pub(crate) in_use: usize,
    /// Whether permits are limited to 5,000 per second.
    pub(crate) is_paced: bool,
}

/// The work of one kind that waits for one node, and the permits in use.
#[derive(Debug)]
pub(crate) struct PermitQueue<T> {
    limit: Limit,
    waiting: BTreeMap<Rank, T>,
    in_use: usize,
    rate: Rate,
    /// Since when the node has given no definite answer to work of this kind, while there is such work.
    unanswered_since: Option<Instant>,
    /// When the next permit may be granted while the node is silent.
    next_probe: Option<Instant>,
    /// The node has answered since it was silent, and the topology has not changed since.
    has_answered: bool,
}

impl<T> PermitQueue<T> {
    pub(crate) fn new(limit: Limit) -> Self {
        let (waiting, rate) = (BTreeMap::new(), Rate::default());
        Self {
            limit,
            waiting,
            in_use: 0,
            rate,
            unanswered_since: None,
            next_probe: None,
            has_answered: false,
        }
    }

    /// Queues work, or returns it with its permit if nothing is before it and the limit allows it.
    pub(crate) fn enter(&mut self, rank: Rank, work: T, now: Instant) -> Option<T> {
        self.unanswered_since.get_or_insert(now);
        if self.waiting.is_empty() && self.admit(now) {
            return Some(work);
        }
        self.waiting.insert(rank, work);
        None
    }

    /// The first work, if the limit allows it now. Its permit is in use.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        let first = self.waiting.first_entry()?.key().to_owned();
        if !self.admit(now) {
            return None;
        }
        self.waiting.remove(&first)
    }

    fn admit(&mut self, now: Instant) -> bool {
        let is_free = self.in_use < self.limit.in_use && self.next_probe.is_none_or(|probe| probe <= now);
        if !is_free || self.limit.is_paced && !self.rate.admit(now) {
            return false;
        }
        self.in_use += 1;
        self.next_probe = self.next_probe.map(|_| now + PROBE_PAUSE);
        true
    }

    /// When [`take`](Self::take) may return work although no permit is returned until then. `None`: not before.
    pub(crate) fn next_look(&mut self, now: Instant) -> Option<Instant> {
        if self.waiting.is_empty() || self.in_use >= self.limit.in_use {
            return None;
        }
        let paced = if self.limit.is_paced { self.rate.next(now) } else { now };
        Some(self.next_probe.map_or(paced, |probe| probe.max(paced)))
    }

    /// A permit is returned. `is_answered`: the node has given a definite answer. Returns whether work waits.
    pub(crate) fn leave(&mut self, is_answered: bool, now: Instant) -> bool {
        self.in_use = self.in_use.saturating_sub(1);
        if is_answered {
            self.unanswered_since = Some(now);
        }
        if self.is_idle() {
            self.unanswered_since = None;
        }
        !self.waiting.is_empty()
    }

    /// The node has not answered a permit's work: from now on one permit is granted each 50 ms.
    pub(crate) fn begin_silence(&mut self, now: Instant) {
        self.has_answered = false;
        self.next_probe.get_or_insert(now + PROBE_PAUSE);
    }

    /// The node has answered something.
    pub(crate) fn handle_answer(&mut self) {
        if self.next_probe.take().is_some() {
            self.has_answered = true;
        }
    }

    /// A node that was silent may be connected again.
    pub(crate) fn handle_topology(&mut self) {
        (self.next_probe, self.has_answered) = (None, false);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.next_probe.is_some()
    }

    /// Whether permits are granted because the node has answered something since it was silent.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Takes all work that waits, if the node has given no definite answer for `patience`.
    pub(crate) fn take_unserved(&mut self, now: Instant, patience: Duration) -> Vec<T> {
        let is_over = self.unanswered_since.is_some_and(|since| now - since >= patience);
        if is_over { self.take_waiting().into_values().collect() } else { Vec::new() }
    }

    /// Takes work that is not wanted any more.
    pub(crate) fn remove(&mut self, rank: Rank) -> Option<T> {
        match self.waiting.entry(rank) {
            Entry::Occupied(found) => Some(found.remove()),
            Entry::Vacant(_) => None,
        }
    }

    /// Takes all work that waits, with its ranks.
    pub(crate) fn take_waiting(&mut self) -> BTreeMap<Rank, T> {
        if self.in_use == 0 {
            self.unanswered_since = None;
        }
        std::mem::take(&mut self.waiting)
    }

    /// Puts work back that another queue has returned.
    pub(crate) fn put_back(&mut self, rank: Rank, work: T, now: Instant) {
        self.unanswered_since.get_or_insert(now);
        self.waiting.insert(rank, work);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_use == 0
    }
}

/// The pause between two releases of owners that are sent to a silent node.
const PROBE_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::rate::PER_WINDOW;

    const RETRIES: Limit = Limit { in_use: usize::MAX, is_paced: true };
    const TWO: Limit = Limit { in_use: 2, is_paced: false };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn all(queue: &mut PermitQueue<u64>, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| queue.take(now)).collect()
    }

    #[test]
    fn l2_no_more_than_5000_a_second_and_the_longest_wait_first() {
        let mut queue = PermitQueue::new(RETRIES);
        let at_once = (0..PER_WINDOW as u64).filter_map(|n| queue.enter((at(0), n), n, at(1000)));
        assert_eq!(at_once.count(), PER_WINDOW);
        for oldest in [30, 10, 20] {
            assert_eq!(queue.enter((at(oldest), 100 + oldest), oldest, at(1000)), None);
        }
        assert!(all(&mut queue, at(1005)).is_empty());
        assert_eq!(queue.next_look(at(1005)), Some(at(1010)));
        assert_eq!(all(&mut queue, at(1010)), [10, 20, 30]);
        assert_eq!(queue.next_look(at(1010)), None);
    }

    #[test]
    fn l5_work_that_is_not_wanted_any_more_holds_no_other_back() {
        let mut queue = PermitQueue::new(RETRIES);
        (0..PER_WINDOW as u64).for_each(|n| assert!(queue.enter((at(0), n), n, at(1000)).is_some()));
        (1_000..11_000).for_each(|n| assert!(queue.enter((at(1), n), n, at(1000)).is_none()));
        assert!(queue.enter((at(2), 20_000), 7, at(1000)).is_none());
        (1_000..11_000).for_each(|n| assert_eq!(queue.remove((at(1), n)), Some(n)));
        assert_eq!(all(&mut queue, at(1010)), [7]);
        assert_eq!(queue.remove((at(2), 20_000)), None);
    }

    #[test]
    fn no_more_permits_than_the_limit_are_in_use() {
        let mut queue = PermitQueue::new(TWO);
        let entered: Vec<_> = (0..4).map(|n| queue.enter((at(0), n), n, at(0))).collect();
        assert_eq!((entered, queue.next_look(at(0))), (vec![Some(0), Some(1), None, None], None));
        queue.leave(true, at(1));
        assert_eq!(queue.enter((at(0), 9), 9, at(1)), None, "work that came earlier goes first");
        assert_eq!(queue.remove((at(0), 9)), Some(9));
        assert_eq!(all(&mut queue, at(1)), [2]);
        (0..2).for_each(|_| assert!(queue.leave(true, at(2))));
        assert_eq!(all(&mut queue, at(2)), [3]);
        assert!(!queue.is_idle());
        queue.leave(true, at(2));
        assert!(queue.is_idle());
    }

    #[test]
    fn a_silent_node_gets_one_release_each_50_ms_until_it_answers() {
        let mut queue = PermitQueue::new(Limit { in_use: 64, is_paced: false });
        assert_eq!(queue.enter((at(0), 0), 0, at(0)), Some(0));
        queue.begin_silence(at(10));
        (1..=5).for_each(|n| assert_eq!(queue.enter((at(10), n), n, at(10)), None));
        assert_eq!((queue.next_look(at(10)), queue.take(at(59))), (Some(at(60)), None));
        assert_eq!((all(&mut queue, at(60)), all(&mut queue, at(109))), (vec![1], vec![]));
        queue.begin_silence(at(100)); // an earlier release has no answer: it does not move the next probe
        assert_eq!(all(&mut queue, at(110)), [2]);
        assert!(!queue.has_answered() && queue.is_silent());
        queue.handle_answer();
        assert_eq!(all(&mut queue, at(111)), [3, 4, 5]);
        assert!(queue.has_answered());
        queue.begin_silence(at(112));
        assert!(!queue.has_answered(), "a probe is not sent because the node answers");
    }

    #[test]
    fn what_waits_is_taken_once_the_node_has_answered_nothing_for_too_long() {
        let mut queue = PermitQueue::new(Limit { in_use: 1, is_paced: false });
        (0..3).for_each(|n| assert_eq!(queue.enter((at(0), n), n, at(100)).is_some(), n == 0));
        assert!(queue.take_unserved(at(1_099), Duration::from_secs(1)).is_empty());
        queue.leave(true, at(1_000));
        assert_eq!(all(&mut queue, at(1_000)), [1]);
        assert!(queue.take_unserved(at(1_999), Duration::from_secs(1)).is_empty(), "it has answered since");
        assert_eq!(queue.take_unserved(at(2_000), Duration::from_secs(1)), [2]);
        queue.leave(false, at(2_000));
        (3..5).for_each(|n| assert_eq!(queue.enter((at(0), n), n, at(9_000)).is_some(), n == 3));
        assert!(
            queue.take_unserved(at(9_999), Duration::from_secs(1)).is_empty(),
            "it had nothing to answer"
        );
        queue.leave(false, at(9_999));
        assert_eq!(queue.take_waiting().len(), 1);
        queue.put_back((at(0), 9), 9, at(20_000));
        assert!(
            queue.take_unserved(at(20_999), Duration::from_secs(1)).is_empty(),
            "nothing waited meanwhile"
        );
    }
}
