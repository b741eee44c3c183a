//! What few leases need: those in trouble, those whose hold is limited, those whose loss is waited for. It is made when it
//! is needed, so that the many do without.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, futures::Notified};

use super::{unanswered::UnansweredSends, unconfirmed_owner::ReleaseDue};
use crate::clock::Instant;

/// Beside a lease's core.
#[derive(Debug)]
pub(super) struct ColdState {
    max_hold: Option<Duration>,
    renewed_until: AtomicU64,
    open: Mutex<UnansweredSends>,
    closing: OnceLock<ReleaseDue>,
    ended: Notify,
}

impl Default for ColdState {
    fn default() -> Self {
        Self::new(None, UnansweredSends::default())
    }
}

impl ColdState {
    pub(super) fn new(max_hold: Option<Duration>, open: UnansweredSends) -> Self {
        Self {
            max_hold,
            renewed_until: AtomicU64::new(u64::MAX),
            open: Mutex::new(open),
            closing: OnceLock::new(),
            ended: Notify::new(),
        }
    }

    /// For how long it is renewed at most.
    pub(super) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// The limit counts from now on, if there is one.
    pub(super) fn start_max_hold(&self, now: Instant) {
        if let Some(time) = self.max_hold {
            self.renewed_until.fetch_min((now + time).as_nanos(), Ordering::AcqRel);
        }
    }

    /// Until when it is renewed.
    pub(super) fn renewed_until(&self) -> Instant {
        Instant::from_nanos(self.renewed_until.load(Ordering::Acquire))
    }

    /// Sends that were not answered. Whole after every statement, so a panic elsewhere cannot have broken it.
    pub(super) fn open(&self) -> MutexGuard<'_, UnansweredSends> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the closer has it, once it was lost.
    pub(super) fn closing(&self) -> Option<ReleaseDue> {
        self.closing.get().copied()
    }

    pub(super) fn note_closing(&self, place: ReleaseDue) {
        let _ = self.closing.set(place); // it is lost once only
    }

    /// Resolves at the next end that is told.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    pub(super) fn tell_end(&self) {
        self.ended.notify_waiters();
    }
}
