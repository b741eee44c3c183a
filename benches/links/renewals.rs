//! What an engine tells of its renewals.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold::{
    Event, Recorder,
    metrics::{EngineEvent, LockEvent},
};

/// Counts them.
#[derive(Clone, Default)]
pub(super) struct Renewals(Arc<Mutex<Seen>>);

/// Since the last time.
pub(super) struct Seen {
    /// Answered or given up.
    pub(super) batches: usize,
    /// Leases in these batches.
    pub(super) members: usize,
    /// The smallest share of the ttl that was left to the deadline when a renewal was confirmed.
    pub(super) nearest: f64,
}

impl Renewals {
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self { batches: 0, members: 0, nearest: 1.0 }
    }
}

impl Recorder for Renewals {
    fn record(&self, event: &Event<'_>) {
        match event {
            Event::Engine(EngineEvent::RenewalBatch { members, .. }) => self.note(|seen| {
                seen.batches += 1;
                seen.members += members;
            }),
            Event::Lock(_, LockEvent::MarginLeft { share, .. }) => {
                self.note(|seen| seen.nearest = seen.nearest.min(*share));
            }
            _ => {}
        }
    }
}
