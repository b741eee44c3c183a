//! Lease state that few leases need: leases with unanswered sends, leases whose hold is limited, leases whose loss a
//! caller waits for, leases of permits, write leases that also read or are downgraded, fenced leases with reserved tokens.
//! It is allocated on first use, so that all other leases do not pay for it.

use std::{
    num::NonZeroU16,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, futures::Notified};

use super::{unanswered::UnansweredSends, unconfirmed_owner::ReleaseDue};
use crate::clock::Instant;

/// The rarely needed part of a lease.
#[derive(Debug)]
pub(super) struct ColdState {
    max_hold: Option<Duration>,
    permits: Option<NonZeroU16>,
    /// Of a fenced lock: how many tokens above its own are left for the next holders of the grant.
    reserved_tokens: u16,
    renewed_until: AtomicU64,
    open: Mutex<UnansweredSends>,
    closing: OnceLock<ReleaseDue>,
    /// The number of holders of a write lease that only read. Changed only under the lock of the key's entry.
    readers: AtomicU32,
    downgrade: AtomicU8,
    /// The lease was lost, or its downgrade was confirmed.
    changed: Notify,
}

impl Default for ColdState {
    fn default() -> Self {
        Self::new(None, None, UnansweredSends::default())
    }
}

impl ColdState {
    pub(super) fn new(
        max_hold: Option<Duration>,
        permits: Option<NonZeroU16>,
        open: UnansweredSends,
    ) -> Self {
        Self {
            max_hold,
            permits,
            reserved_tokens: 0,
            renewed_until: AtomicU64::new(u64::MAX),
            open: Mutex::new(open),
            closing: OnceLock::new(),
            readers: AtomicU32::new(0),
            downgrade: AtomicU8::new(NOT_DOWNGRADED),
            changed: Notify::new(),
        }
    }

    pub(super) fn with_reserved_tokens(self, reserved_tokens: u16) -> Self {
        Self { reserved_tokens, ..self }
    }

    pub(super) fn reserved_tokens(&self) -> u16 {
        self.reserved_tokens
    }

    /// For how long the lease is renewed at most.
    pub(super) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// The number of permits that the lease holds.
    pub(super) fn permits(&self) -> Option<NonZeroU16> {
        self.permits
    }

    /// Starts `max_hold` at `now`, if the lease has a limit.
    pub(super) fn start_max_hold(&self, now: Instant) {
        if let Some(time) = self.max_hold {
            self.renewed_until.fetch_min((now + time).as_nanos(), Ordering::AcqRel);
        }
    }

    /// The moment until which the lease is renewed.
    pub(super) fn renewed_until(&self) -> Instant {
        Instant::from_nanos(self.renewed_until.load(Ordering::Acquire))
    }

    /// The lease's unanswered sends. The value is consistent after every statement, so a panic elsewhere cannot have
    /// broken it, and a poisoned lock is usable.
    pub(super) fn open(&self) -> MutexGuard<'_, UnansweredSends> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the lease's owner in the reconciler, once the lease was lost.
    pub(super) fn closing(&self) -> Option<ReleaseDue> {
        self.closing.get().copied()
    }

    pub(super) fn note_closing(&self, place: ReleaseDue) {
        let _ = self.closing.set(place); // a lease is lost only once
    }

    /// Resolves at the next `tell_change`.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn tell_change(&self) {
        self.changed.notify_waiters();
    }

    /// The number of holders that only read.
    pub(super) fn readers(&self) -> u32 {
        self.readers.load(Ordering::Acquire)
    }

    pub(super) fn add_readers(&self, count: u32) {
        self.readers.fetch_add(count, Ordering::AcqRel);
    }

    pub(super) fn remove_reader(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the lease is a read lease from now on.
    pub(super) fn is_downgraded(&self) -> bool {
        self.downgrade.load(Ordering::Acquire) != NOT_DOWNGRADED
    }

    /// Whether a server has confirmed the downgrade.
    pub(super) fn is_downgrade_confirmed(&self) -> bool {
        self.downgrade.load(Ordering::Acquire) == CONFIRMED
    }

    pub(super) fn begin_downgrade(&self) {
        self.downgrade.fetch_max(BEGUN, Ordering::AcqRel);
    }

    pub(super) fn confirm_downgrade(&self) {
        self.downgrade.fetch_max(CONFIRMED, Ordering::AcqRel);
    }
}

const NOT_DOWNGRADED: u8 = 0;
const BEGUN: u8 = 1;
const CONFIRMED: u8 = 2;
