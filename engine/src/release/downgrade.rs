//! Turns write leases into read leases. A lease reads from the moment of the call; the renewal thread tells the server,
//! again and again until a server has confirmed it or the lease has ended.

use std::sync::Arc;

use crate::{
    inner::Inner,
    lease::{shared::LeaseCore, state::LossReason},
    renewal::inbox::Order,
    transport::HoldKind,
};

/// What became of a holder that wants to read from now on.
pub(crate) enum Downgrade {
    /// The holder reads. A server may have to confirm the downgrade.
    Reads,
    /// The holder does not write.
    NotWriting,
    Lost(LossReason),
}

/// Makes one holder of a lease a reader. If no other holder writes, the lease becomes a read lease.
pub(crate) fn begin(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, side: HoldKind) -> Downgrade {
    if !lease.is_held(inner.clock.now()) {
        return Downgrade::Lost(lease.loss().unwrap_or(lease.reason_at_deadline()));
    }
    let (writes, is_left) =
        inner.table.with(&lease.key, |_| (lease.turn_to_reading(side), lease.leave_to_readers()));
    if is_left {
        send(inner, lease);
    }
    if writes { Downgrade::Reads } else { Downgrade::NotWriting }
}

/// Tells the server that the lease is a read lease.
pub(crate) fn send(inner: &Inner, lease: &Arc<LeaseCore>) {
    inner.inboxes.push(lease.key.slot(), Order::Downgrade(lease.clone()));
}

/// A server has confirmed the downgrade, so readers of this engine may ask for leases of their own.
pub(crate) fn handle_confirmed(inner: &Inner, lease: &Arc<LeaseCore>) {
    lease.confirm_downgrade();
    let now = inner.clock.now();
    inner.table.with(&lease.key, |slot| {
        slot.entry.handle_downgrade(now);
        slot.poke();
    });
    lease.tell_change();
}
