//! Sends the release of a lease that has ended, and reports its outcome.
//!
//! The ask of the next caller of this process follows the release at once, on the same connection.

use std::sync::Arc;

use super::{
    in_progress::{ReleaseInProgress, ReleasedBy},
    retry::{self, Told},
};
use crate::{
    clock::Instant,
    error::ReleaseError,
    inner::Inner,
    lease::{shared::LeaseCore, state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    metrics::ReleaseOutcome,
    transport::{Outcome, TransportError},
};

/// Sends the release of a lease that has ended, and passes the outcome to the entry, to the reconciler, and to `answer_to`.
pub(crate) fn send(
    under_way: ReleaseInProgress,
    lease: &Arc<LeaseCore>,
    answer_to: impl FnOnce(Result<(), ReleaseError>) + Send + 'static,
) {
    let (inner, released) = (under_way.inner.clone(), lease.clone());
    retry::send(&inner, lease, move |told| answer_to(handle_told(under_way, &released, told)));
}

fn handle_told(
    mut under_way: ReleaseInProgress,
    lease: &Arc<LeaseCore>,
    told: Told,
) -> Result<(), ReleaseError> {
    let inner = &under_way.inner.clone();
    let (reply, now) = (&told.reply, told.received);
    let (published, listeners) = match reply {
        Ok(Outcome::Released { listeners, .. }) => (lease.kind().notifies(), *listeners),
        Ok(_not_yours) => (false, None),
        Err(_) => (false, None),
    };
    under_way.end(|slot| {
        if slot.entry.handle_release_answer(published, listeners, slot.subscribed, now) {
            slot.poke();
        }
    });
    let mut open = lease.take_open();
    if let Some(at) = reply.as_ref().ok().and_then(Outcome::at) {
        open.handle_release(at);
    }
    let closing = UnconfirmedOwner { open, may_hold: reply.is_err(), ..lease.to_closing() };
    if closing.may_hold || !closing.open.is_closed() {
        inner.reconciler.add(inner, &lease.key, closing);
    }
    let (outcome, result) = outcome(inner, lease, told, under_way.how);
    under_way.tell(outcome);
    result
}

/// Ends a release that is not sent for its caller any more. The reconciler takes over its owner.
pub(crate) fn give_up(
    mut under_way: ReleaseInProgress,
    lease: &LeaseCore,
    last_error: TransportError,
) -> Result<(), ReleaseError> {
    let inner = &under_way.inner.clone();
    inner.reconciler.add(inner, &lease.key, lease.to_closing());
    let told = Told { reply: Err(last_error), unsure: false, received: inner.clock.now() };
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
        Ok(Outcome::Released { .. }) if how == ReleasedBy::ByDrop => (ReleaseOutcome::Dropped, Ok(())),
        Ok(Outcome::Released { .. }) => (ReleaseOutcome::Released, Ok(())),
        Ok(_not_yours) if told.unsure => (ReleaseOutcome::ReleasedOrLost, Err(ReleaseError::ReleasedOrLost)),
        Ok(_not_yours) => (ReleaseOutcome::AlreadyLost, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))),
        Err(last_error) => {
            let now = inner.clock.now();
            (ReleaseOutcome::Unknown, Err(unknown(lease.gone_by(), now, Some(last_error))))
        }
    }
}

/// The error of a release without an answer. It says when the server has forgotten the lock in any case.
pub(crate) fn unknown(gone_by: Instant, now: Instant, last_error: Option<TransportError>) -> ReleaseError {
    ReleaseError::Unknown { gone_by, within: gone_by - now, last_error }
}
