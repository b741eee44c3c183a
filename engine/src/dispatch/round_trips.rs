//! The round trip to the server without a queue at its node.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The round trips of calls beside which nothing else was unanswered: without a queue at the node. The smallest of the last
/// four counts.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    last: [AtomicU64; 4],
    next: AtomicU64,
}

impl RoundTrips {
    pub(super) fn note(&self, took: Duration) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) as usize % self.last.len();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.last[place].store(nanos, Ordering::Relaxed);
    }

    /// Zero before the fourth sample.
    pub(super) fn smallest(&self) -> Duration {
        let nanos = self.last.iter().map(|last| last.load(Ordering::Relaxed)).min();
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}
