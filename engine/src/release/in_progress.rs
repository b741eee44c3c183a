//! A release that was begun and is not answered yet.

use std::sync::Arc;

use crate::{
    acquire::table::Slot,
    clock::Instant,
    inner::Inner,
    lease::shared::LeaseCore,
    metrics::{LockEvent, ReleaseOutcome},
    pending_tasks::TaskGuard,
};

/// How a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleasedBy {
    /// The holder called release and waits for the answer.
    ByCall,
    /// The holder dropped the lease.
    ByDrop,
}

/// A release in progress. Until it is answered or dropped, the key's entry is kept, and the engine's calls thread waits
/// for it before it ends.
pub(crate) struct ReleaseInProgress {
    pub(super) inner: Arc<Inner>,
    pub(super) lease: Arc<LeaseCore>,
    /// When the lease ended by this release, if it counts as released.
    released: Option<Instant>,
    pub(super) how: ReleasedBy,
    ended: bool,
    _task: TaskGuard,
}

impl ReleaseInProgress {
    pub(crate) fn begin(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, slot: &mut Slot) -> Self {
        slot.releases += 1;
        Self {
            inner: inner.clone(),
            lease: lease.clone(),
            released: None,
            how: ReleasedBy::ByCall,
            ended: false,
            _task: inner.pending_tasks.begin(),
        }
    }

    pub(super) fn end(&mut self, tell: impl FnOnce(&mut Slot)) {
        self.ended = true;
        self.inner.table.with(&self.lease.key, |slot| {
            slot.releases -= 1;
            tell(slot);
        });
    }

    /// Counts the lease as released from `now` on. A lease that was lost, for example by shutdown, counts as lost. A
    /// lease that no caller accepted does not count, because it was never granted.
    pub(super) fn counts(mut self, now: Instant) -> Self {
        self.released = self.lease.was_taken().then_some(now);
        self
    }

    /// Sets how the lease was released. The default is by a call.
    pub(crate) fn given_back(mut self, how: ReleasedBy) -> Self {
        self.how = how;
        self
    }

    pub(super) fn tell(&mut self, outcome: ReleaseOutcome) {
        if let Some(ended) = self.released.take() {
            let released = LockEvent::Released { held: ended - self.lease.granted_at, outcome };
            self.inner.events.record_lock(self.lease.labels(), released);
        }
    }
}

impl Drop for ReleaseInProgress {
    fn drop(&mut self) {
        if !self.ended {
            self.end(|_| {});
        }
        self.tell(ReleaseOutcome::Unknown); // unless it was recorded before
    }
}
