//! Handles the loss of a lease: frees its entry, closes its owner, then reports the loss.

use std::{sync::Arc, time::Duration};

use tracing::Level;

use crate::{
    clock::Instant,
    inner::Inner,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    log,
    losses::Loss,
    metrics::LockEvent,
};

/// Ends a lease as lost, unless it has ended, and reports the loss. The caller holds no lock of the table.
pub(crate) fn lose(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if lease.lose(reason) {
        handle_loss(inner, lease, reason);
    }
}

/// Handles the loss of a lease: frees its entry, closes its owner, then reports the loss. User code is called last, so
/// that nothing of the engine depends on it. A second call for the same lease does nothing.
pub(crate) fn handle_loss(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if !lease.claim_loss() {
        return;
    }
    let now = inner.clock.now();
    inner.inboxes.cancel(lease);
    inner.table.with(&lease.key, |slot| {
        slot.entry.handle_local_loss(lease, now, inner.round_trip());
        slot.poke();
    });
    // At a shutdown, the shutdown itself sends the release and reports its outcome.
    if reason != LossReason::Shutdown {
        inner.reconciler.add_lost(inner, lease, reason);
    }
    tell_loss(inner, lease, reason, now);
    lease.tell_change();
}

// A lease that no caller has accepted was never returned. Its caller is queued again and has lost nothing.
fn tell_loss(inner: &Inner, lease: &Arc<LeaseCore>, reason: LossReason, now: Instant) {
    if !lease.was_taken() {
        return;
    }
    let held = now - lease.granted_at;
    let at_deadline =
        matches!(reason, LossReason::Expired | LossReason::MaxHold | LossReason::RenewalStopped);
    let late = at_deadline.then(|| now - lease.deadline());
    inner.events.record_lock(lease.labels(), LockEvent::Lost { reason, token: lease.token, held, late });
    let (name, fencing_token, deadline) = (lease.key.name().into(), lease.token, lease.deadline());
    inner.losses.push(Loss { name, fencing_token, reason, at: now, deadline, held });
    if reason != LossReason::Shutdown {
        log_loss(inner, lease.clone(), reason, late);
    }
}

fn log_loss(inner: &Inner, lease: Arc<LeaseCore>, reason: LossReason, late: Option<Duration>) {
    let classes = inner.events.classes.clone();
    log::line(Level::ERROR, move || {
        tracing::error!(
            lock = lease.key.name(),
            class = classes.class(lease.labels().class).name(),
            %reason,
            token = %lease.token,
            margin = ?state::margin(lease.ttl()),
            noticed_after_deadline = ?late,
            "a lease was lost"
        );
    });
}
