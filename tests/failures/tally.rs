//! Counts what an engine tells its recorder.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use leasehold::{
    Event, Recorder, RenewalOutcome,
    metrics::{EngineEvent, LockEvent},
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    renewals_too_late: AtomicU64,
    renewals_answered: AtomicU64,
    renewals_sent: AtomicU64,
    no_expiry: AtomicU64,
}

impl Tally {
    pub(crate) fn renewals_too_late(&self) -> u64 {
        self.0.renewals_too_late.load(Ordering::SeqCst)
    }

    pub(crate) fn renewals_answered(&self) -> u64 {
        self.0.renewals_answered.load(Ordering::SeqCst)
    }

    /// Members of batches that came back.
    pub(crate) fn renewals_sent(&self) -> u64 {
        self.0.renewals_sent.load(Ordering::SeqCst)
    }

    pub(crate) fn no_expiry(&self) -> u64 {
        self.0.no_expiry.load(Ordering::SeqCst)
    }
}

impl Recorder for Tally {
    fn record(&self, event: &Event<'_>) {
        match event {
            Event::Engine(EngineEvent::RenewalBatch { members, .. }) => {
                self.0.renewals_sent.fetch_add(*members as u64, Ordering::SeqCst);
            }
            Event::Lock(_, LockEvent::Renewal { outcome, count, .. }) => {
                self.0.renewals_answered.fetch_add(*count, Ordering::SeqCst);
                if *outcome == RenewalOutcome::TooLate {
                    self.0.renewals_too_late.fetch_add(*count, Ordering::SeqCst);
                }
            }
            Event::Engine(EngineEvent::NoExpiry) => {
                self.0.no_expiry.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}
