//! Ends one hold of a lease locally. Nothing is sent here.
//!
//! The lease ends *before* the first byte of its release is sent (promise S11).

use std::sync::Arc;

use super::{downgrade, in_progress::ReleaseInProgress, loss};
use crate::{
    inner::Inner,
    lease::{shared::LeaseCore, state::LossReason},
    transport::HoldKind,
};

/// The effect of giving back one hold.
pub(crate) enum HoldEnd {
    /// Other holders of the same scope still hold the lease.
    StillHeld,
    /// The hold was the last one of a live lease, so a release must be sent.
    Ended(ReleaseInProgress),
    /// The lease had been lost before.
    WasLost(LossReason),
}

/// Ends one hold of a holder that asked for this kind. If it was the last hold of a live lease, the lease ends too. If
/// it was the last hold that writes, the lease becomes a read lease.
pub(crate) fn end_hold(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, side: HoldKind) -> HoldEnd {
    let now = inner.clock.now();
    if lease.is_live() && !lease.is_held(now) {
        loss::lose(inner, lease, lease.reason_at_deadline()); // the renewal thread has not noticed it yet
    }
    let pace = inner.pace(lease.key.slot());
    let mut is_left_to_readers = false;
    let end_hold = inner.table.with(&lease.key, |slot| {
        let left = lease.remove_hold(side);
        slot.entry.forget_dropped();
        if let Some(reason) = lease.loss() {
            return HoldEnd::WasLost(reason);
        }
        if left > 0 {
            is_left_to_readers = lease.leave_to_readers();
            return HoldEnd::StillHeld;
        }
        if !lease.release() {
            return HoldEnd::WasLost(lease.loss().unwrap_or(LossReason::NotOurs));
        }
        slot.entry.handle_local_release(lease, now, slot.subscribed, &pace);
        HoldEnd::Ended(ReleaseInProgress::begin(inner, &lease.key, slot).counts(lease, now))
    });
    if is_left_to_readers {
        downgrade::send(inner, lease);
    }
    if matches!(end_hold, HoldEnd::WasLost(_)) && lease.holds() == 0 {
        inner.reconciler.expedite(inner, lease);
    }
    end_hold
}
