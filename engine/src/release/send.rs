//! Giving a hold back: what ends at once, and what is sent and awaited afterwards.
//!
//! The lease ends *before* the first byte is sent (promise S11). The next caller of this process is asked for right
//! behind the release, on the same connection.

use std::sync::Arc;

use super::{
    end::{self, ReleasedBy},
    retry::{self, Told},
};
use crate::{
    acquire::{attempt::UnconfirmedOwner, table::Slot},
    clock::Instant,
    error::ReleaseError,
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason},
    metrics::ReleaseOutcome,
    pending_tasks::TaskGuard,
    renewal::inbox::Order,
    transport::{Release, ReleaseReply, TransportError},
};

/// What giving back one hold meant.
pub(crate) enum HoldEnd {
    /// Others of the same scope still hold the lease.
    StillHeld,
    /// It was the last hold and the lease was live: a release is to be sent.
    Ended(ReleaseInProgress),
    /// The lease was lost before.
    WasLost(LossReason),
}

/// A release under way. It keeps the key's entry and the engine's last moments until it is answered or its task is gone.
pub(crate) struct ReleaseInProgress {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    /// The lease that ended by it, if it counts as released, and when.
    released: Option<(Arc<LeaseCore>, Instant)>,
    how: ReleasedBy,
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

    fn end(&mut self, tell: impl FnOnce(&mut Slot)) {
        self.ended = true;
        self.inner.table.with(&self.key, |slot| {
            slot.releases -= 1;
            tell(slot);
        });
    }
}

impl ReleaseInProgress {
    /// The lease counts as released from `now` on. One that was lost, by shutdown say, counts as lost; one that nobody
    /// took was never granted.
    fn counts(mut self, lease: &Arc<LeaseCore>, now: Instant) -> Self {
        self.released = lease.was_taken().then(|| (lease.clone(), now));
        self
    }

    /// By which way; unless it is told, by a call.
    pub(crate) fn given_back(mut self, how: ReleasedBy) -> Self {
        self.how = how;
        self
    }

    fn tell(&mut self, outcome: ReleaseOutcome) {
        if let Some((lease, ended)) = self.released.take() {
            let events = &self.inner.events;
            events.released(events.class(lease.class), ended - lease.granted_at, outcome);
        }
    }
}

impl Drop for ReleaseInProgress {
    fn drop(&mut self) {
        if !self.ended {
            self.end(|_| {});
        }
        self.tell(ReleaseOutcome::Unknown); // unless it was told before
    }
}

/// Gives back one hold.
pub(crate) fn end_hold(inner: &Arc<Inner>, lease: &Arc<LeaseCore>) -> HoldEnd {
    let now = inner.clock.now();
    if lease.is_live() && !lease.is_held(now) {
        end::lose(inner, lease, lease.reason_at_deadline()); // nobody has noticed yet
    }
    let pace = inner.pace(lease.key.slot());
    let end_hold = inner.table.with(&lease.key, |slot| {
        let left = lease.remove_hold();
        slot.entry.forget_dropped();
        if let Some(reason) = lease.loss() {
            return HoldEnd::WasLost(reason);
        }
        if left > 0 {
            return HoldEnd::StillHeld;
        }
        if !lease.release() {
            return HoldEnd::WasLost(lease.loss().unwrap_or(LossReason::NotOurs));
        }
        slot.entry.handle_local_release(lease, now, slot.subscribed, &pace);
        HoldEnd::Ended(ReleaseInProgress::begin(inner, &lease.key, slot).counts(lease, now))
    });
    if matches!(end_hold, HoldEnd::WasLost(_)) && lease.holds() == 0 {
        inner.reconciler.expedite(inner, lease);
    }
    end_hold
}

/// Tells renewal that the lease has ended.
pub(crate) fn cancel_renewal(inner: &Inner, lease: &Arc<LeaseCore>) {
    inner.inboxes.push(lease.key.slot(), Order::Cancel(lease.clone()));
}

/// Sends the release of a lease that has ended, and tells the entry and the closer what came of it.
pub(crate) async fn send(
    mut under_way: ReleaseInProgress,
    lease: &Arc<LeaseCore>,
) -> Result<(), ReleaseError> {
    let inner = &under_way.inner.clone();
    let release = Release { key: lease.key.clone(), owner: lease.owner };
    let told = retry::send(inner, &release).await;
    let reply = &told.reply;
    let (published, listeners) = match reply {
        Ok(ReleaseReply::Released { listeners, .. }) => (true, *listeners),
        Ok(ReleaseReply::NotYours { .. }) | Err(_) => (false, None),
    };
    let now = inner.clock.now();
    under_way.end(|slot| {
        if slot.entry.handle_release_answer(published, listeners, slot.subscribed, now) {
            slot.poke();
        }
    });
    let mut open = lease.take_open();
    match reply {
        Ok(ReleaseReply::Released { at, .. } | ReleaseReply::NotYours { at }) => open.handle_release(*at),
        Err(_) => {}
    }
    let closing =
        UnconfirmedOwner { owner: lease.owner, open, may_hold: reply.is_err(), gone_by: lease.gone_by() };
    if closing.may_hold || !closing.open.is_closed() {
        inner.reconciler.add(inner, &lease.key, closing);
    }
    let (outcome, result) = outcome(inner, lease, told, under_way.how);
    under_way.tell(outcome);
    result
}

/// A release that is not sent by its caller any more: the closer has its owner.
pub(crate) fn give_up(
    mut under_way: ReleaseInProgress,
    lease: &LeaseCore,
    last_error: TransportError,
) -> Result<(), ReleaseError> {
    let inner = &under_way.inner.clone();
    inner.reconciler.add(inner, &lease.key, lease.to_closing());
    let told = Told { reply: Err(last_error), unsure: false };
    let (outcome, result) = outcome(inner, lease, told, under_way.how);
    under_way.tell(outcome);
    result
}

fn outcome(
    inner: &Inner,
    lease: &LeaseCore,
    told: Told,
    how: ReleasedBy,
) -> (ReleaseOutcome, Result<(), ReleaseError>) {
    match told.reply {
        Ok(ReleaseReply::Released { .. }) if how == ReleasedBy::ByDrop => (ReleaseOutcome::Dropped, Ok(())),
        Ok(ReleaseReply::Released { .. }) => (ReleaseOutcome::Released, Ok(())),
        Ok(ReleaseReply::NotYours { .. }) if told.unsure => {
            (ReleaseOutcome::ReleasedOrLost, Err(ReleaseError::ReleasedOrLost))
        }
        Ok(ReleaseReply::NotYours { .. }) => {
            (ReleaseOutcome::AlreadyLost, Err(ReleaseError::AlreadyLost(LossReason::NotOurs)))
        }
        Err(last_error) => {
            let now = inner.clock.now();
            (ReleaseOutcome::Unknown, Err(unknown(lease.gone_by(), now, Some(last_error))))
        }
    }
}

/// What is known of a release without an answer: by when the server has forgotten the lock in any case.
pub(crate) fn unknown(gone_by: Instant, now: Instant, last_error: Option<TransportError>) -> ReleaseError {
    ReleaseError::Unknown { gone_by, within: gone_by - now, last_error }
}
