//! A release that was begun and is not answered yet.

use std::sync::Arc;

use crate::{
    acquire::table::Slot,
    clock::Instant,
    inner::Inner,
    key::LockKey,
    lease::shared::LeaseCore,
    metrics::{LockEvent, ReleaseOutcome},
    pending_tasks::TaskGuard,
};

/// How a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleasedBy {
    /// The holder called for the release and wants its outcome.
    ByCall,
    /// The holder dropped the lease.
    ByDrop,
}

/// A release in progress. Until the release is answered or its task has ended, the key's entry is kept, and an engine
/// that ends waits for it.
pub(crate) struct ReleaseInProgress {
    pub(super) inner: Arc<Inner>,
    key: Arc<LockKey>,
    /// The lease that ended by this release, and when, if the lease counts as released.
    released: Option<(Arc<LeaseCore>, Instant)>,
    pub(super) how: ReleasedBy,
    ended: bool,
    _task: TaskGuard,
}

impl ReleaseInProgress {
    pub(crate) fn begin(inner: &Arc<Inner>, key: &Arc<LockKey>, slot: &mut Slot) -> Self {
        slot.releases += 1;
        Self {
            inner: inner.clone(),
            key: key.clone(),
            released: None,
            how: ReleasedBy::ByCall,
            ended: false,
            _task: inner.pending_tasks.begin(),
        }
    }

    pub(super) fn end(&mut self, tell: impl FnOnce(&mut Slot)) {
        self.ended = true;
        self.inner.table.with(&self.key, |slot| {
            slot.releases -= 1;
            tell(slot);
        });
    }

    /// The lease counts as released from `now` on. This function is not called for a lease that was lost (by a
    /// shutdown, for example): that lease counts as lost. A lease that no caller has taken counts as never granted.
    pub(super) fn counts(mut self, lease: &Arc<LeaseCore>, now: Instant) -> Self {
        self.released = lease.was_taken().then(|| (lease.clone(), now));
        self
    }

    /// Sets how the holder gave the lease back. Without this call it counts as [`ReleasedBy::ByCall`].
    pub(crate) fn given_back(mut self, how: ReleasedBy) -> Self {
        self.how = how;
        self
    }

    pub(super) fn tell(&mut self, outcome: ReleaseOutcome) {
        if let Some((lease, ended)) = self.released.take() {
            let released = LockEvent::Released { held: ended - lease.granted_at, outcome };
            self.inner.events.record_lock(lease.labels, released);
        }
    }
}

impl Drop for ReleaseInProgress {
    fn drop(&mut self) {
        if !self.ended {
            self.end(|_| {});
        }
        self.tell(ReleaseOutcome::Unknown); // no effect if an outcome was reported before
    }
}
