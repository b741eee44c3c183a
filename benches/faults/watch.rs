//! What an engine tells of its renewals and losses, by class of locks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::{Event, LockClass, Recorder, metrics::LockEvent};

/// Hears of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Mutex<BTreeMap<String, Seen>>>);

/// Of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The share of the ttl that each confirmed renewal left to the deadline that was in force.
    margins: Vec<f64>,
    /// How long after its deadline each loss was told.
    told_late: Vec<Duration>,
    lost: usize,
}

impl Watch {
    /// Everything since the last time.
    pub(super) fn take(&self) -> BTreeMap<String, Seen> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, class: &LockClass, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(class.name()) {
            Some(seen) => note(seen),
            None => note(seen.entry(class.name().to_owned()).or_default()),
        }
    }
}

impl Recorder for Watch {
    fn record(&self, event: &Event<'_>) {
        match event {
            Event::Lock(lock, LockEvent::MarginLeft { share, .. }) => {
                self.note(lock.class, |seen| seen.margins.push(*share));
            }
            Event::Lock(lock, LockEvent::Lost { late, .. }) => self.note(lock.class, |seen| {
                seen.lost += 1;
                seen.told_late.extend(*late);
            }),
            _ => {}
        }
    }
}

impl Seen {
    pub(super) fn add(&mut self, other: Seen) {
        self.margins.extend(other.margins);
        self.told_late.extend(other.told_late);
        self.lost += other.lost;
    }

    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    pub(super) fn renewed(&self) -> usize {
        self.margins.len()
    }

    /// Confirmed with less than a third of the ttl left.
    pub(super) fn late(&self) -> usize {
        self.margins.iter().filter(|share| **share < 1.0 / 3.0).count()
    }

    pub(super) fn nearest(&self) -> f64 {
        self.margins.iter().copied().fold(1.0, f64::min)
    }

    /// How much of the ttl 99.9 % of the renewals left at least.
    pub(super) fn left_by_most(&self) -> f64 {
        let mut margins = self.margins.clone();
        margins.sort_by(f64::total_cmp);
        margins.get(margins.len() / 1_000).copied().unwrap_or(0.0)
    }

    /// In milliseconds: how long after its deadline a loss was told, in this share of all cases at most.
    pub(super) fn told_late_ms(&self, share: f64) -> f64 {
        let mut late = self.told_late.clone();
        late.sort_unstable();
        let place = (late.len() as f64 * share) as usize;
        late.get(place.min(late.len().saturating_sub(1))).map_or(0.0, |late| late.as_secs_f64() * 1e3)
    }

    /// Losses that were told later than this after their deadline.
    pub(super) fn told_later_than(&self, most: Duration) -> usize {
        self.told_late.iter().filter(|late| **late > most).count()
    }
}
