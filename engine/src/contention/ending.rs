//! How a lease ends: lost, released, or given back because nobody took it.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Level;

use super::{
    release::{self, LetGo, UnderWay},
    rooms::{Departure, Guest},
};
use crate::{
    clock::Instant,
    error::ReleaseError,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    log,
    losses::Loss,
    works::Works,
};

/// What came, or will come, of a release.
pub(crate) enum Receipt {
    Done(Result<(), ReleaseError>),
    Pending(oneshot::Receiver<Result<(), ReleaseError>>),
}

/// How a holder gives its lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// It asked for the answer.
    ByCall,
    /// It dropped the lease.
    ByDrop,
}

/// Ends a lease as lost, unless it has ended, and tells everybody. Not under a lock of the table.
pub(crate) fn lose(works: &Arc<Works>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if lease.lose(reason) {
        handle_loss(works, lease, reason);
    }
}

/// A lease has just been lost: frees its entry and closes its owner, then tells the loss. User code hears of it last, so
/// that nothing of ours depends on it. A second call for the same lease does nothing.
pub(crate) fn handle_loss(works: &Arc<Works>, lease: &Arc<LeaseCore>, reason: LossReason) {
    if !lease.claim_loss() {
        return;
    }
    let now = works.clock.now();
    release::cancel_renewal(works, lease);
    let pace = works.pace(lease.key.slot());
    works.table.with(&lease.key, |slot| {
        slot.entry.handle_local_loss(lease, now, &pace);
        slot.poke();
    });
    // At shutdown the release is sent, and reported, by the shutdown.
    if reason != LossReason::Shutdown {
        works.closer.add_lost(works, lease, reason);
    }
    tell_loss(works, lease, reason, now);
    lease.tell_end();
}

// A lease that nobody has taken yet was never returned: its caller is queued again and has lost nothing.
fn tell_loss(works: &Works, lease: &Arc<LeaseCore>, reason: LossReason, now: Instant) {
    if !lease.was_taken() {
        return;
    }
    let held = now - lease.granted_at;
    works.events.totals.held.sub(1);
    works.events.totals.lost.add(1);
    let at_deadline =
        matches!(reason, LossReason::Expired | LossReason::MaxHold | LossReason::RenewalStopped);
    let late = at_deadline.then(|| now - lease.deadline());
    let (name, fencing_token, deadline) = (lease.key.name().into(), lease.token, lease.deadline());
    works.losses.push(Loss { name, fencing_token, reason, at: now, deadline, held });
    works.events.lost(works.events.class(lease.class), reason, lease.token, held, late);
    if reason != LossReason::Shutdown {
        log_loss(works, lease.clone(), reason, late);
    }
}

fn log_loss(works: &Works, lease: Arc<LeaseCore>, reason: LossReason, late: Option<Duration>) {
    let classes = works.events.classes.clone();
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
pub(crate) fn give_back(works: &Arc<Works>, lease: &Arc<LeaseCore>) {
    match release::let_go(works, lease) {
        LetGo::StillHeld | LetGo::WasLost(_) => {}
        LetGo::Ended(under_way) => drop(send_release(works, lease, under_way)),
    }
}

/// Gives back one hold. The answer comes to the receiver; what was begun goes on without it.
pub(crate) fn release(works: &Arc<Works>, lease: &Arc<LeaseCore>, how: GivenBack) -> Receipt {
    match release::let_go(works, lease) {
        LetGo::StillHeld => Receipt::Done(Ok(())),
        LetGo::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        LetGo::Ended(under_way) => send_release(works, lease, under_way.given_back(how)),
    }
}

/// Gives back one hold of each; all of them end at once, and the releases are sent as there is room at the nodes, the
/// earliest deadline first. The receipts come in the order of the leases.
pub(crate) fn release_in_turn(
    works: &Arc<Works>,
    leases: impl IntoIterator<Item = Arc<LeaseCore>>,
    how: GivenBack,
) -> Vec<Receipt> {
    let mut departures = Vec::new();
    let release = |lease| match release::let_go(works, &lease) {
        LetGo::StillHeld => Receipt::Done(Ok(())),
        LetGo::WasLost(reason) => Receipt::Done(Err(ReleaseError::AlreadyLost(reason))),
        LetGo::Ended(under_way) => {
            handle_end(works, &lease);
            let (answer_to, answer) = oneshot::channel();
            departures.push(Departure { under_way: under_way.given_back(how), lease, answer_to });
            Receipt::Pending(answer)
        }
    };
    let receipts = leases.into_iter().map(release).collect();
    departures.sort_by_key(|departure| departure.lease.deadline());
    works.rooms.add(departures.into_iter().map(Guest::Release));
    receipts
}

fn handle_end(works: &Works, lease: &Arc<LeaseCore>) {
    match lease.was_taken() {
        true => {
            works.events.totals.held.sub(1);
            works.events.totals.released.add(1);
        }
        false => works.events.grant_without_caller(),
    }
    release::cancel_renewal(works, lease);
}

fn send_release(works: &Arc<Works>, lease: &Arc<LeaseCore>, under_way: UnderWay) -> Receipt {
    handle_end(works, lease);
    let (sender, receiver) = oneshot::channel();
    let ended = lease.clone();
    works.spawn(async move { drop(sender.send(release::send(under_way, &ended).await)) });
    // The next caller is asked for behind the release, on the same connection.
    works.table.with(&lease.key, |slot| slot.poke());
    Receipt::Pending(receiver)
}
