//! Gives holds back: one hold, many holds in turn, or a hold that no caller has accepted.

use std::sync::Arc;

use super::{
    bulk::BulkRelease,
    hold::{self, Ended, HoldEnd, Next},
    in_progress::ReleasedBy,
    send,
};
use crate::{
    acquire::{
        delivery::{self, Installed},
        pending_grant::Grants,
    },
    answers::{self, AnswerReceiver},
    core::Core,
    dispatch::work::Work,
    error::ReleaseError,
    inner::Inner,
    lease::shared::LeaseCore,
    metrics::{EngineEvent, LockEvent, ReleaseOutcome},
    renewal::inbox::Order,
    transport::HoldKind,
};

/// The outcome of a release, now or later.
pub(crate) enum Receipt {
    Done(Result<(), ReleaseError>),
    Pending(AnswerReceiver<Result<(), ReleaseError>>),
    /// The next caller of this engine has got the lock.
    HandedOff,
}

/// Gives back the hold of a grant that no caller accepted. It goes to the server: callers that are dropped one after the
/// other must not hand a grant on without end.
pub(crate) fn give_back(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, side: HoldKind) {
    if let HoldEnd::Ended(ended) = hold::end_hold(inner, lease, side, Next::OfServer) {
        drop(send_release(inner, lease, ended, ReleasedBy::ByCall));
    }
}

/// Releases a grant that no caller has taken, because others of this engine wait behind it. Does nothing if a caller has taken
/// it meanwhile.
pub(crate) fn take_back(inner: &Arc<Inner>, lease: &Arc<LeaseCore>) {
    if let Some(ended) = hold::end_untaken(inner, lease) {
        drop(send_release(inner, lease, ended, ReleasedBy::ByCall));
    }
}

/// Gives back one hold. The receipt gets the answer; a release that has begun goes on if the receipt is dropped.
pub(crate) fn release(
    inner: &Arc<Inner>,
    lease: &Arc<LeaseCore>,
    side: HoldKind,
    how: ReleasedBy,
) -> Receipt {
    match hold::end_hold(inner, lease, side, Next::OfEngine) {
        HoldEnd::StillHeld => Receipt::Done(Ok(())),
        HoldEnd::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        HoldEnd::Ended(ended) => send_release(inner, lease, ended, how),
        HoldEnd::HandedOff(next) => {
            handle_hand_off(inner, lease, next, how);
            Receipt::HandedOff
        }
    }
}

/// Ends one hold and sends no release: the server keeps the lock until its ttl is over, whatever becomes of this
/// engine. Callers of this engine that wait for the lock ask again. The lease counts as dropped.
pub(crate) fn leave_to_expire(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, side: HoldKind) {
    let HoldEnd::Ended(Ended { mut under_way, .. }) = hold::end_hold(inner, lease, side, Next::OfServer)
    else {
        return;
    };
    handle_end(inner, lease);
    under_way.end(|slot| slot.poke());
    under_way.tell(ReleaseOutcome::Dropped);
}

/// Gives back one hold of each lease. All holds end at once. The releases are sent as the nodes have permits, the lease
/// with the earliest deadline first. The receipts come in the order of the leases.
pub(crate) fn release_in_turn(
    inner: &Arc<Inner>,
    leases: impl IntoIterator<Item = (Arc<LeaseCore>, HoldKind)>,
    how: ReleasedBy,
) -> Vec<Receipt> {
    let mut calls = Vec::new();
    let release = |(lease, side)| match hold::end_hold(inner, &lease, side, Next::OfEngine) {
        HoldEnd::StillHeld => Receipt::Done(Ok(())),
        HoldEnd::HandedOff(next) => {
            handle_hand_off(inner, &lease, next, ReleasedBy::ByDrop); // the caller has more to release
            Receipt::Done(Ok(()))
        }
        HoldEnd::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        HoldEnd::Ended(Ended { under_way, .. }) => {
            handle_end(inner, &lease);
            let (answer_to, answer) = answers::channel();
            calls.push(BulkRelease { under_way: under_way.given_back(how), lease, answer_to });
            Receipt::Pending(answer)
        }
    };
    let receipts = leases.into_iter().map(release).collect();
    calls.sort_by_key(|call| call.lease.deadline());
    inner.dispatcher.add_bulk(&inner.core, calls.into_iter().map(|call| Box::new(call) as Box<dyn Work>));
    receipts
}

// A caller of release awaits its answer, and then the receiver runs that was woken on this thread. Who drops a lease may go on
// without an await, and tokio gives the task that was woken last to no other thread: so a thread of the engine wakes it.
fn handle_hand_off(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, next: Box<Installed>, how: ReleasedBy) {
    count_end(inner, lease);
    inner.inboxes.cancel_known(lease);
    let held = inner.clock.now() - lease.granted_at;
    let released = LockEvent::Released { held, outcome: ReleaseOutcome::HandedOff };
    inner.events.record_lock(lease.labels(), released);
    match how {
        ReleasedBy::ByCall => delivery::deliver(inner, *next, true),
        ReleasedBy::ByDrop => {
            let (engine, pending) = (inner.clone(), inner.pending_tasks.begin());
            inner.spawn_on_own_thread(async move {
                delivery::deliver(&engine, *next, true);
                drop(pending);
            });
        }
    }
}

fn handle_end(inner: &Inner, lease: &Arc<LeaseCore>) {
    count_end(inner, lease);
    inner.inboxes.cancel(lease);
}

fn count_end(inner: &Inner, lease: &LeaseCore) {
    match lease.was_taken() {
        true => {
            inner.events.totals.held.sub(1);
            inner.events.totals.released.add(1);
        }
        false => inner.events.record_engine(EngineEvent::GrantWithoutCaller),
    }
}

fn send_release(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, ended: Ended, how: ReleasedBy) -> Receipt {
    let Ended { under_way, at, waiting } = ended;
    handle_end(inner, lease);
    let (sender, receiver) = answers::channel();
    send::send(inner, under_way.given_back(how), at, |result| sender.send(result));
    // The ask of the next caller follows the release on the same connection. A driver that did not wait when the lease ended
    // needs no wake: it looks at the entry again in any case.
    if let Some(waiting) = waiting {
        waiting.notify_one();
    }
    Receipt::Pending(receiver)
}

impl Grants for Inner {
    fn core(&self) -> &Core {
        &self.core
    }

    fn accepted(&self, lease: &Arc<LeaseCore>) {
        self.inboxes.push(lease.key.slot(), Order::Taken(lease.clone()));
    }

    fn give_back(self: Arc<Self>, lease: &Arc<LeaseCore>, side: HoldKind) {
        give_back(&self, lease, side);
    }

    fn release(self: Arc<Self>, lease: &Arc<LeaseCore>, side: HoldKind) {
        drop(release(&self, lease, side, ReleasedBy::ByDrop));
    }
}
