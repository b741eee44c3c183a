//! Ends one hold of a lease locally. Nothing is sent here.
//!
//! The lease ends *before* the first byte of its release is sent (promise S11).

use std::sync::Arc;

use tokio::sync::Notify;

use super::{downgrade, in_progress::ReleaseInProgress, loss};
use crate::{
    acquire::{
        delivery::{self, Installed},
        reply_to::ReplyTo,
        table::Slot,
    },
    clock::Instant,
    inner::Inner,
    lease::{shared::LeaseCore, state::LossReason},
    transport::HoldKind,
};

/// The effect of giving back one hold.
pub(crate) enum HoldEnd {
    /// Other holders of the same scope still hold the lease.
    StillHeld,
    /// The hold was the last one of a live lease, so a release must be sent.
    Ended(Ended),
    /// The hold was the last one of a live lease, and the next caller of this engine gets its grant. The lease has ended.
    HandedOff(Box<Installed>),
    /// The lease had been lost before.
    WasLost(LossReason),
}

/// A hold whose release must be sent.
pub(crate) struct Ended {
    pub(super) under_way: ReleaseInProgress,
    /// When the lease ended.
    pub(super) at: Instant,
    /// Wakes the driver of the key's entry, if it waits.
    pub(super) waiting: Option<Arc<Notify>>,
}

/// Who gets the lock after its last hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Whom the server chooses.
    OfServer,
    /// The next caller of this engine, if the rules of [`Entry::hand_off`](crate::acquire::entry::Entry::hand_off) say so.
    OfEngine,
}

/// Ends one hold of a holder that asked for this kind. If it was the last hold of a live lease, the lease ends too. If
/// it was the last hold that writes, the lease becomes a read lease.
pub(crate) fn end_hold(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, side: HoldKind, next: Next) -> HoldEnd {
    let now = inner.clock.now();
    if lease.is_live() && !lease.is_held(now) {
        loss::lose(inner, lease, lease.reason_at_deadline()); // the renewal thread has not noticed it yet
    }
    let mut is_left_to_readers = false;
    let end_hold = inner.table.with(&lease.key, |slot| {
        let left = lease.remove_hold(side);
        slot.entry.forget_dropped();
        if let Some(reason) = lease.loss() {
            return HoldEnd::WasLost(reason);
        }
        if left > 0 {
            is_left_to_readers = lease.is_live() && lease.leave_to_readers();
            return HoldEnd::StillHeld;
        }
        if let Some(installed) = hand_off(inner, lease, slot, next, now) {
            return HoldEnd::HandedOff(Box::new(installed));
        }
        if !lease.release() {
            return HoldEnd::WasLost(lease.loss().unwrap_or(LossReason::NotOurs));
        }
        slot.entry.handle_local_release(lease, now, slot.subscribed, inner.round_trip());
        let under_way = ReleaseInProgress::begin(inner, lease, slot).counts(now);
        HoldEnd::Ended(Ended { under_way, at: now, waiting: slot.poke.clone() })
    });
    if is_left_to_readers {
        downgrade::send(inner, lease);
    }
    if matches!(end_hold, HoldEnd::WasLost(_)) && lease.holds() == 0 {
        inner.reconciler.expedite(inner, lease);
    }
    end_hold
}

/// Ends a lease that no caller has taken. `None`: a caller has taken it, or it has ended.
pub(super) fn end_untaken(inner: &Arc<Inner>, lease: &Arc<LeaseCore>) -> Option<Ended> {
    let now = inner.clock.now();
    inner.table.with(&lease.key, |slot| {
        if !lease.end_untaken() {
            return None;
        }
        slot.entry.handle_local_release(lease, now, slot.subscribed, inner.round_trip());
        let under_way = ReleaseInProgress::begin(inner, lease, slot).counts(now);
        Some(Ended { under_way, at: now, waiting: slot.poke.clone() })
    })
}

// Hands the grant of a lease whose last hold has ended off, if the next caller of this engine may have it.
fn hand_off(
    inner: &Inner,
    lease: &Arc<LeaseCore>,
    slot: &mut Slot,
    next: Next,
    now: Instant,
) -> Option<Installed> {
    let is_served = || inner.calls.is_serving(lease.granted_by, lease.key.slot());
    // A grant that no caller has taken was never counted, so it goes to the server as it does in `give_back`.
    let is_counted = lease.was_taken();
    let may = next == Next::OfEngine && slot.entry.is_wanted() && is_counted;
    if !may || inner.check_open().is_err() || !is_served() || inner.inboxes.is_half_full(lease.key.slot()) {
        return None;
    }
    let look = slot.entry.next_look(now);
    let grant = slot.entry.hand_off(lease, now, inner.hand_offs_max, ReplyTo::is_abandoned)?;
    let installed = delivery::install(&lease.key, slot, grant);
    let is_earlier = |next| look.is_none_or(|look| next < look);
    if !slot.entry.is_wanted() || slot.entry.next_look(now).is_some_and(is_earlier) {
        slot.poke(); // the driver has nothing to do any more, or something earlier
    }
    Some(installed)
}
