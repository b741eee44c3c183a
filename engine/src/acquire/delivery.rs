//! Hands a grant out: makes the lease, answers the callers that get it, and those that leave without.

use std::sync::Arc;

use tracing::Level;

use super::{
    caller::{Caller, Leaving},
    entry::{Grant, HeldGrant},
    pending_grant::PendingGrant,
    reply_to::{Answer, ReplyTo},
    table::Slot,
};
use crate::{
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason, unconfirmed_owner::UnconfirmedOwner},
    log,
    metrics::{EngineEvent, LabelSet},
    release::{downgrade, loss},
    renewal::{inbox::Order, ttl_check::TtlExpectation},
    transport::HoldKind,
};

/// Another client holds the lock without expiry.
pub(super) fn warn_no_expiry(inner: &Inner, key: &Arc<LockKey>) {
    if !inner.warned_no_expiry.is_news(key.on_server()) {
        return;
    }
    inner.events.record_engine(EngineEvent::NoExpiry);
    let key = key.clone();
    log::line(Level::WARN, move || {
        tracing::warn!(
            lock = key.name(),
            "a peer holds this lock without expiry; callers poll until it is gone"
        );
    });
}

/// A lease that holds its key, with the callers that get the lease.
pub(crate) struct Installed {
    lease: Arc<LeaseCore>,
    receiver: Receiver,
    sharers: Vec<Caller<ReplyTo>>,
    baseline: TtlExpectation,
    /// The leases that held the key before and are lost.
    replaced: Vec<HeldGrant>,
    /// The lease writes, and its callers only read.
    is_left_to_readers: bool,
}

/// A caller that gets a grant, as far as its answer needs it. The whole caller would be copied several times on its way.
struct Receiver {
    side: HoldKind,
    labels: LabelSet,
    reply_to: ReplyTo,
}

impl From<Caller<ReplyTo>> for Receiver {
    fn from(Caller { side, terms, reply_to, .. }: Caller<ReplyTo>) -> Self {
        Self { side, labels: terms.labels, reply_to }
    }
}

pub(crate) fn install(key: &Arc<LockKey>, slot: &mut Slot, grant: Grant<ReplyTo>) -> Installed {
    let Grant { receiver, sharers, granted, open, stays } = grant;
    let holds = 1 + u32::try_from(sharers.len()).unwrap_or(u32::MAX - 1);
    let lease = Arc::new(LeaseCore::new(key.clone(), receiver.terms, granted, open, holds));
    if lease.kind() == HoldKind::Write {
        let readers =
            std::iter::once(&receiver).chain(&sharers).filter(|caller| caller.side == HoldKind::Read);
        lease.add_readers(u32::try_from(readers.count()).unwrap_or(u32::MAX));
    }
    if stays {
        lease.forbid_hand_off();
    }
    slot.entry.begin_looks(receiver.late);
    let mut replaced = slot.entry.install(lease.clone(), receiver.scope);
    // The callers of the scope that wanted to write may have left.
    let is_left_to_readers = lease.leave_to_readers();
    // The server granted the lock again, so earlier leases of this engine are lost. They end before the new one begins.
    replaced.retain(|earlier| earlier.lease().lose(LossReason::NotOurs));
    let baseline = TtlExpectation::new(granted.sent, granted.received, lease.ttl());
    Installed { lease, receiver: receiver.into(), sharers, baseline, replaced, is_left_to_readers }
}

pub(crate) fn deliver(inner: &Arc<Inner>, installed: Installed, contended: bool) {
    let Installed { lease, receiver, sharers, baseline, replaced, is_left_to_readers } = installed;
    for earlier in &replaced {
        loss::handle_loss(inner, earlier.lease(), LossReason::NotOurs);
    }
    inner.warned_no_expiry.handle_granted(lease.key.on_server());
    inner.events.totals.callers.sub(1 + sharers.len() as u64);
    inner.inboxes.push(lease.key.slot(), Order::Register(lease.clone(), baseline));
    if is_left_to_readers {
        downgrade::send(inner, &lease);
    }
    receiver.answer(inner, lease.clone(), contended);
    for sharer in sharers {
        Receiver::from(sharer).answer(inner, lease.clone(), contended);
    }
}

impl Receiver {
    fn answer(self, inner: &Arc<Inner>, lease: Arc<LeaseCore>, contended: bool) {
        let Self { side, labels, reply_to } = self;
        let pending_grant = PendingGrant::new(lease, (side, labels), inner.clone(), contended);
        // If the caller was dropped, the pending grant is dropped, which releases the lease.
        reply_to.send(Answer::PendingGrant(pending_grant));
    }
}

pub(super) fn dismiss(inner: &Inner, leaving: Vec<Leaving<ReplyTo>>) {
    if leaving.is_empty() {
        return; // most often
    }
    inner.events.totals.callers.sub(leaving.len() as u64);
    for Leaving { caller, refusal } in leaving {
        caller.reply_to.send(Answer::Refused(refusal));
    }
}

pub(super) fn close(inner: &Arc<Inner>, key: &Arc<LockKey>, closing: Option<UnconfirmedOwner>) {
    if let Some(closing) = closing {
        inner.reconciler.add(inner, key, closing);
    }
}
