//! Gauges, computed from the live tables at each scrape, so that they cannot drift.

use std::time::Duration;

use super::{LabelSet, LockLabels, elections::Stood};
use crate::{acquire::table::Slot, clock::Instant, inner::Inner, lease::shared::LeaseCore};

/// The leases and the waiting callers of one engine at one moment.
pub(super) struct Live {
    of_locks: Vec<LockLive>,
    stood: Stood,
    pub(super) subscriptions: u64,
}

/// The leases and the waiting callers of one class and kind.
#[derive(Clone, Debug, Default)]
pub(super) struct LockLive {
    pub(super) held: u64,
    pub(super) in_jeopardy: u64,
    pub(super) waiters: u64,
    pub(super) waiters_max: u64,
    pub(super) contended: u64,
    pub(super) oldest_hold: Duration,
    pub(super) oldest_waiter: Duration,
    pub(super) elections: u64,
    pub(super) leading: u64,
}

impl Live {
    /// Visits every entry. Each part of the table is locked for the visit of that part alone.
    pub(super) fn of(inner: &Inner) -> Self {
        let stood = inner.events.elections.stood();
        let mut live = Self { of_locks: vec![LockLive::default(); LabelSet::COUNT], stood, subscriptions: 0 };
        let now = inner.clock.now();
        inner.table.for_each_lease(|lease| live.look_at_lease(lease, now));
        inner.table.for_each_busy(|_, slot| live.look_at_callers(slot, now));
        live.stood.elections().for_each(|labels| live.of_locks[labels.index()].elections += 1);
        live
    }

    pub(super) fn of_lock(&self, lock: LockLabels<'_>) -> &LockLive {
        &self.of_locks[lock.set().index()]
    }

    fn look_at_lease(&mut self, lease: &LeaseCore, now: Instant) {
        if lease.is_live() && lease.was_taken() {
            let live = &mut self.of_locks[lease.labels().index()];
            live.held += 1;
            live.leading += u64::from(self.stood.leads(lease.key.name(), lease.labels()));
            live.in_jeopardy += u64::from(lease.is_in_jeopardy());
            live.oldest_hold = live.oldest_hold.max(now - lease.granted_at);
        }
    }

    fn look_at_callers(&mut self, slot: &Slot, now: Instant) {
        self.subscriptions += u64::from(slot.subscribed);
        let mut here: Vec<(LabelSet, u64)> = Vec::new();
        for caller in slot.entry.callers() {
            let live = &mut self.of_locks[caller.terms.labels.index()];
            live.oldest_waiter = live.oldest_waiter.max(now - caller.joined);
            match here.iter_mut().find(|(labels, _)| *labels == caller.terms.labels) {
                Some((_, count)) => *count += 1,
                None => here.push((caller.terms.labels, 1)),
            }
        }
        for (labels, count) in here {
            let live = &mut self.of_locks[labels.index()];
            live.waiters += count;
            live.contended += 1;
            live.waiters_max = live.waiters_max.max(count);
        }
    }
}
