//! How a lease ends: lost, released, or given back because nobody took it.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Level;

use super::send::{self, HoldEnd, ReleaseInProgress};
use crate::{
    acquire::bulk_limiter::{BulkCall, BulkReleaseCall},
    clock::Instant,
    error::ReleaseError,
    inner::Inner,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    log,
    losses::Loss,
};

/// What came, or will come, of a release.
pub(crate) enum Receipt {
    Done(Result<(), ReleaseError>),
    Pending(oneshot::Receiver<Result<(), ReleaseError>>),
}

/// How a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleasedBy {
    /// It asked for the answer.
    ByCall,
    /// It dropped the lease.
    ByDrop,
}

/// Ends a lease as lost, unless it has ended, and tells everybody. Not under a lock of the table.
pub(crate) fn lose(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if lease.lose(reason) {
        handle_loss(inner, lease, reason);
    }
}

/// A lease has just been lost: frees its entry and closes its owner, then tells the loss. User code hears of it last, so
/// that nothing of ours depends on it. A second call for the same lease does nothing.
pub(crate) fn handle_loss(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if !lease.claim_loss() {
        return;
    }
    let now = inner.clock.now();
    send::cancel_renewal(inner, lease);
    let pace = inner.pace(lease.key.slot());
    inner.table.with(&lease.key, |slot| {
        slot.entry.handle_local_loss(lease, now, &pace);
        slot.poke();
    });
    // At shutdown the release is sent, and reported, by the shutdown.
    if reason != LossReason::Shutdown {
        inner.reconciler.add_lost(inner, lease, reason);
    }
    tell_loss(inner, lease, reason, now);
    lease.tell_end();
}

// A lease that nobody has taken yet was never returned: its caller is queued again and has lost nothing.
fn tell_loss(inner: &Inner, lease: &Arc<LeaseCore>, reason: LossReason, now: Instant) {
    if !lease.was_taken() {
        return;
    }
    let held = now - lease.granted_at;
    inner.events.totals.held.sub(1);
    inner.events.totals.lost.add(1);
    let at_deadline =
        matches!(reason, LossReason::Expired | LossReason::MaxHold | LossReason::RenewalStopped);
    let late = at_deadline.then(|| now - lease.deadline());
    let (name, fencing_token, deadline) = (lease.key.name().into(), lease.token, lease.deadline());
    inner.losses.push(Loss { name, fencing_token, reason, at: now, deadline, held });
    inner.events.lost(inner.events.class(lease.class), reason, lease.token, held, late);
    if reason != LossReason::Shutdown {
        log_loss(inner, lease.clone(), reason, late);
    }
}

fn log_loss(inner: &Inner, lease: Arc<LeaseCore>, reason: LossReason, late: Option<Duration>) {
    let classes = inner.events.classes.clone();
    log::line(Level::ERROR, move || {
        tracing::error!(
            lock = lease.key.name(),
            class = classes.class(lease.class).name(),
            %reason,
            token = %lease.token,
            margin = ?state::margin(lease.ttl()),
            noticed_after_deadline = ?late,
            "a lease was lost"
        );
    });
}

/// An offer found nobody: its hold goes back.
pub(crate) fn give_back(inner: &Arc<Inner>, lease: &Arc<LeaseCore>) {
    match send::end_hold(inner, lease) {
        HoldEnd::StillHeld | HoldEnd::WasLost(_) => {}
        HoldEnd::Ended(under_way) => drop(send_release(inner, lease, under_way)),
    }
}

/// Gives back one hold. The answer comes to the receiver; what was begun goes on without it.
pub(crate) fn release(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, how: ReleasedBy) -> Receipt {
    match send::end_hold(inner, lease) {
        HoldEnd::StillHeld => Receipt::Done(Ok(())),
        HoldEnd::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        HoldEnd::Ended(under_way) => send_release(inner, lease, under_way.given_back(how)),
    }
}

/// Gives back one hold of each; all of them end at once, and the releases are sent as there is room at the nodes, the
/// earliest deadline first. The receipts come in the order of the leases.
pub(crate) fn release_in_turn(
    inner: &Arc<Inner>,
    leases: impl IntoIterator<Item = Arc<LeaseCore>>,
    how: ReleasedBy,
) -> Vec<Receipt> {
    let mut calls = Vec::new();
    let release = |lease| match send::end_hold(inner, &lease) {
        HoldEnd::StillHeld => Receipt::Done(Ok(())),
        HoldEnd::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        HoldEnd::Ended(under_way) => {
            handle_end(inner, &lease);
            let (answer_to, answer) = oneshot::channel();
            calls.push(BulkReleaseCall { under_way: under_way.given_back(how), lease, answer_to });
            Receipt::Pending(answer)
        }
    };
    let receipts = leases.into_iter().map(release).collect();
    calls.sort_by_key(|call| call.lease.deadline());
    inner.bulk_limiter.add(calls.into_iter().map(BulkCall::Release));
    receipts
}

fn handle_end(inner: &Inner, lease: &Arc<LeaseCore>) {
    match lease.was_taken() {
        true => {
            inner.events.totals.held.sub(1);
            inner.events.totals.released.add(1);
        }
        false => inner.events.grant_without_caller(),
    }
    send::cancel_renewal(inner, lease);
}

fn send_release(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, under_way: ReleaseInProgress) -> Receipt {
    handle_end(inner, lease);
    let (sender, receiver) = oneshot::channel();
    let ended = lease.clone();
    inner.spawn(async move { drop(sender.send(send::send(under_way, &ended).await)) });
    // The next caller is asked for behind the release, on the same connection.
    inner.table.with(&lease.key, |slot| slot.poke());
    Receipt::Pending(receiver)
}
