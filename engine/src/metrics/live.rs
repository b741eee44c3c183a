//! Gauges, read from the live tables at the moment they are asked for: they cannot drift.

use std::time::Duration;

use super::{CLASSES_MAX, ClassId};
use crate::{acquire::table::Slot, clock::Instant, inner::Inner, lease::shared::LeaseCore};

/// What one engine holds and waits for at one moment.
pub(super) struct Live {
    by_class: Vec<ClassLive>,
    pub(super) subscriptions: u64,
}

/// The same of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassLive {
    pub(super) held: u64,
    pub(super) in_jeopardy: u64,
    pub(super) waiters: u64,
    pub(super) waiters_max: u64,
    pub(super) contended: u64,
    pub(super) oldest_hold: Duration,
    pub(super) oldest_waiter: Duration,
}

impl Live {
    /// Visits every entry, part of the table by part.
    pub(super) fn of(inner: &Inner) -> Self {
        let mut live = Self { by_class: vec![ClassLive::default(); CLASSES_MAX + 1], subscriptions: 0 };
        let now = inner.clock.now();
        inner.table.for_each_lease(|lease| live.look_at_lease(lease, now));
        inner.table.for_each_busy(|_, slot| live.look_at_callers(slot, now));
        live
    }

    pub(super) fn class(&self, index: usize) -> &ClassLive {
        &self.by_class[index]
    }

    fn look_at_lease(&mut self, lease: &LeaseCore, now: Instant) {
        if lease.is_live() && lease.was_taken() {
            let class = &mut self.by_class[lease.class.index()];
            class.held += 1;
            class.in_jeopardy += u64::from(lease.is_in_jeopardy());
            class.oldest_hold = class.oldest_hold.max(now - lease.granted_at);
        }
    }

    fn look_at_callers(&mut self, slot: &Slot, now: Instant) {
        self.subscriptions += u64::from(slot.subscribed);
        let mut here: Vec<(ClassId, u64)> = Vec::new();
        for caller in slot.entry.callers() {
            let class = &mut self.by_class[caller.terms.class.index()];
            class.oldest_waiter = class.oldest_waiter.max(now - caller.joined);
            match here.iter_mut().find(|(id, _)| *id == caller.terms.class) {
                Some((_, count)) => *count += 1,
                None => here.push((caller.terms.class, 1)),
            }
        }
        for (id, count) in here {
            let class = &mut self.by_class[id.index()];
            class.waiters += count;
            class.contended += 1;
            class.waiters_max = class.waiters_max.max(count);
        }
    }
}
