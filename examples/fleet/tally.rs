//! How many leases were granted, and how each of them ended, as their holders saw it.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use leasehold::{ReleaseError, clock::Instant};

/// Each lease is counted once when it is granted and once when it ends.
pub(crate) struct Tally {
    begun: Instant,
    stopped: OnceLock<(Instant, u64)>,
    granted: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
    unanswered: AtomicU64,
    failed: AtomicU64,
    kept: AtomicU64,
    kept_max: AtomicU64,
}

impl Tally {
    pub(crate) fn new(begun: Instant) -> Self {
        let stopped = OnceLock::new();
        let [granted, released, lost, unanswered, failed, kept, kept_max] = Default::default();
        Self { begun, stopped, granted, released, lost, unanswered, failed, kept, kept_max }
    }

    /// A lease was returned to a task.
    pub(crate) fn granted(&self) {
        add(&self.granted);
    }

    /// One of the leases that are to be kept is held.
    pub(crate) fn keeps(&self) {
        let kept = self.kept.fetch_add(1, Ordering::Relaxed) + 1;
        self.kept_max.fetch_max(kept, Ordering::Relaxed);
    }

    /// It is not held any more.
    pub(crate) fn keeps_no_more(&self) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
    }

    /// A release was answered, or not.
    pub(crate) fn released(&self, answer: &Result<(), ReleaseError>) {
        match answer {
            Ok(()) => add(&self.released),
            Err(ReleaseError::AlreadyLost(_)) => add(&self.lost),
            Err(_) => add(&self.unanswered),
        }
    }

    /// Permits were given back, or the answer is missing.
    pub(crate) fn given_back(&self, is_confirmed: bool) {
        add(if is_confirmed { &self.released } else { &self.unanswered });
    }

    /// A lease was lost while it was held.
    pub(crate) fn lost(&self) {
        add(&self.lost);
    }

    /// An acquire failed.
    pub(crate) fn failed(&self) {
        add(&self.failed);
    }

    /// The measured part of the run is over; from now on everything is released.
    pub(crate) fn stopped(&self, now: Instant) {
        self.stopped.get_or_init(|| (now, self.counts().released));
    }

    /// How many leases were released since then.
    pub(crate) fn released_at_the_end(&self) -> u64 {
        self.counts().released - self.stopped.get().map_or(0, |(_, before)| *before)
    }

    /// How many leases are held now, all together.
    pub(crate) fn held(&self) -> u64 {
        let counts = self.counts();
        counts.granted.saturating_sub(counts.released + counts.lost + counts.unanswered)
    }

    /// For how long the run has been measured.
    pub(crate) fn seconds(&self, now: Instant) -> f64 {
        let end = self.stopped.get().map_or(now, |(stopped, _)| *stopped);
        (end - self.begun).as_secs_f64()
    }

    /// A line about something that happened at this moment.
    pub(crate) fn at(&self, moment: Instant, what: &str) -> String {
        format!("{:6.1} s  {what}", (moment - self.begun).as_secs_f64())
    }

    pub(crate) fn counts(&self) -> Counts {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            granted: value(&self.granted),
            released: value(&self.released),
            lost: value(&self.lost),
            unanswered: value(&self.unanswered),
            failed: value(&self.failed),
            kept_max: value(&self.kept_max),
        }
    }
}

/// The counts at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) granted: u64,
    pub(crate) released: u64,
    pub(crate) lost: u64,
    pub(crate) unanswered: u64,
    pub(crate) failed: u64,
    pub(crate) kept_max: u64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
