//! Sends the release of a lease that has ended, and reports its outcome.
//!
//! A release may fail without an effect: the connection is down for a moment, the server loads its data, or the slot is
//! being moved. Most of the time the next send has a definite answer then, and the caller gets `Ok` instead of `Unknown`. A
//! send that may have been executed is repeated too. If the repeat is answered "not yours", the answer does not show whether
//! the earlier send released the lock or the lease was lost before. The lease is not held meanwhile (S11).
//!
//! The first send is made here. The reconciler sends the release again until a server has answered; the caller waits for one
//! command timeout from the first send.
//!
//! The ask of the next caller of this process follows the release at once, on the same connection.

use std::{fmt, sync::Arc};

use super::{
    exchange::{self, Answered, Release, SentAs},
    in_progress::{ReleaseInProgress, ReleasedBy},
    told::{Awaited, AwaitingCaller, Told},
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
/// `sent`: a moment just before, but not before the lease ended.
pub(crate) fn send(
    inner: &Arc<Inner>,
    under_way: ReleaseInProgress,
    sent: Instant,
    answer_to: impl FnOnce(Result<(), ReleaseError>) + Send + 'static,
) {
    let lease = &under_way.lease;
    let release = Release { key: lease.key.clone(), kind: lease.kind(), owner: lease.owner };
    let mut first = FirstSend(Some(Caller { under_way, answer_to }));
    exchange::send(inner, release, sent, SentAs::First, move |Answered { reply, sent, received }| {
        let Some(caller) = first.0.take() else { return };
        match reply {
            Err(last_error) if !last_error.kind.is_final() => caller.wait_for_reconciler(sent, last_error),
            reply => caller.handle_told(sent, Told { reply, unsure: false, received }),
        }
    });
}

/// The caller of a release until its first send is answered. If the transport loses that send, the reconciler takes over the
/// owner.
struct FirstSend<A>(Option<Caller<A>>);

impl<A> Drop for FirstSend<A> {
    fn drop(&mut self) {
        if let Some(Caller { under_way, .. }) = &self.0 {
            let (inner, lease) = (&under_way.inner, &under_way.lease);
            inner.reconciler.add(inner, &lease.key, lease.to_closing());
        }
    }
}

/// The caller of a release.
struct Caller<A> {
    under_way: ReleaseInProgress,
    answer_to: A,
}

impl<A: FnOnce(Result<(), ReleaseError>) + Send + 'static> Caller<A> {
    fn wait_for_reconciler(self, sent: Instant, last_error: TransportError) {
        let (inner, lease) = (self.under_way.inner.clone(), self.under_way.lease.clone());
        let until = sent + inner.config.command_timeout();
        let unsure = last_error.may_have_effect();
        let awaited = Awaited { caller: Box::new(self), until, last_error, unsure };
        inner.dispatcher.begin_silence(&inner.core, lease.key.slot());
        inner.reconciler.add_awaited(&inner, &lease.key, lease.to_closing(), awaited);
    }

    /// Takes in the outcome of the first send.
    fn handle_told(self, sent: Instant, told: Told) {
        let (inner, lease) = (&self.under_way.inner, &self.under_way.lease);
        let mut open = lease.take_open();
        if let Some(at) = told.reply.as_ref().ok().and_then(Outcome::at) {
            open.handle_release(sent, at);
        }
        let may_hold = told.reply.is_err();
        if may_hold || !open.is_closed() {
            let closing = UnconfirmedOwner { open, may_hold, ..lease.to_closing() };
            inner.reconciler.add(inner, &lease.key, closing);
        }
        self.tell(told);
    }

    fn tell(self, told: Told) {
        let Self { mut under_way, answer_to } = self;
        let (published, listeners) = match &told.reply {
            Ok(Outcome::Released { listeners, .. }) => (under_way.lease.kind().notifies(), *listeners),
            Ok(_not_yours) => (false, None),
            Err(_) => (false, None),
        };
        under_way.end(|slot| {
            if slot.entry.handle_release_answer(published, listeners, slot.subscribed, told.received) {
                slot.poke();
            }
        });
        let (outcome, result) = outcome(&under_way.inner, &under_way.lease, told, under_way.how);
        under_way.tell(outcome);
        answer_to(result);
    }
}

impl<A: FnOnce(Result<(), ReleaseError>) + Send + 'static> AwaitingCaller for Caller<A> {
    fn answer(self: Box<Self>, told: Told) {
        self.tell(told);
    }
}

impl<A> fmt::Debug for Caller<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({:?})", self.under_way.lease.key)
    }
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
