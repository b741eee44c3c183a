//! The orderly end of an engine: every lease is lost, then released, and the names of unconfirmed releases are
//! reported.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    acquire::table::Slot,
    answers::{self, AnswerReceiver},
    clock::Instant,
    counters,
    dispatch::work::Work,
    error::ReleaseError,
    guard,
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason},
    release::{bulk::BulkRelease, in_progress::ReleaseInProgress, loss},
};

/// The result of [`Engine::shutdown`](crate::Engine::shutdown).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The number of leases whose release was confirmed.
    pub released: usize,
    /// The names of the locks whose release was not confirmed in time. Such a lock is free when its ttl is over.
    pub unconfirmed: Vec<String>,
}

impl ShutdownReport {
    /// For a shutdown that the end of its runtime cuts off: it confirms nothing.
    pub(super) fn unconfirmed_all(inner: &Inner) -> Self {
        let mut open = inner.reconciler.names();
        inner.table.for_each_lease(|lease| open.push(lease.key.clone()));
        inner.table.for_each_busy(|key, _| open.push(key.clone()));
        Self { released: 0, unconfirmed: each_once(names(&open)) }
    }
}

/// A lease that is being released, and whether its release is confirmed: `None` until it is answered.
struct Leaving {
    lease: Arc<LeaseCore>,
    answer: AnswerReceiver<Result<(), ReleaseError>>,
    confirmed: Option<bool>,
}

/// Runs a shutdown that has begun, at most until `until`.
pub(crate) async fn run(inner: &Arc<Inner>, until: Instant) -> ShutdownReport {
    let mut leaving = release_all(inner, lose_all(inner));
    let confirm = async {
        for one in &mut leaving {
            one.confirmed = Some(is_confirmed((&mut one.answer).await.ok()));
        }
        inner.settled().await;
    };
    tokio::select! {
        () = confirm => {}
        () = inner.clock.sleep_until(until) => {}
    }
    let report = report(inner, &mut leaving);
    tokio::select! {
        () = inner.events.caught_up() => {}
        () = inner.clock.sleep_until(until.min(inner.clock.now() + RECORDER_MAX)) => {}
    }
    report
}

/// Ends all leases as lost, and answers the callers that wait. Returns the leases that this call has lost: nothing is sent for
/// them yet.
pub(crate) fn lose_all(inner: &Arc<Inner>) -> Vec<Arc<LeaseCore>> {
    inner.dispatcher.reject_acquires(&inner.core);
    counters::call::dismiss_all(inner);
    let (mut lost, mut callers) = (Vec::new(), Vec::new());
    // Callers first: a grant that arrives from then on finds no caller and is released.
    inner.table.for_each_busy(|_, slot: &mut Slot| {
        callers.extend(slot.entry.depart_all());
        slot.poke();
    });
    // This includes leases that were lost before and whose loss is not handled yet, because the renewal driver may end
    // before it handles them.
    inner.table.for_each_lease(|lease| {
        lease.lose(LossReason::Shutdown);
        lost.extend(lease.loss().map(|reason| (lease.clone(), reason)));
    });
    inner.events.totals.callers.sub(callers.len() as u64);
    guard::drop_each(callers); // dropping a caller answers it, and its waker may panic
    lost.iter().for_each(|(lease, reason)| loss::handle_loss(inner, lease, *reason));
    lost.into_iter().filter(|(_, reason)| *reason == LossReason::Shutdown).map(|(lease, _)| lease).collect()
}

// The earliest deadline first: if no release arrives, that lock is the first that another client could get.
fn release_all(inner: &Arc<Inner>, mut leases: Vec<Arc<LeaseCore>>) -> Vec<Leaving> {
    leases.sort_by_key(|lease| lease.deadline());
    let (calls, leaving): (Vec<_>, Vec<_>) = leases.into_iter().map(|lease| release(inner, lease)).unzip();
    inner.dispatcher.add_bulk(&inner.core, calls);
    leaving
}

fn release(inner: &Arc<Inner>, lease: Arc<LeaseCore>) -> (Box<dyn Work>, Leaving) {
    let under_way = inner.table.with(&lease.key, |slot| ReleaseInProgress::begin(inner, &lease, slot));
    let (answer_to, answer) = answers::channel();
    let call = BulkRelease { under_way, lease: lease.clone(), answer_to };
    (Box::new(call), Leaving { lease, answer, confirmed: None })
}

// `None`: the answer's sender was dropped, so no answer will come.
fn is_confirmed(answer: Option<Result<(), ReleaseError>>) -> bool {
    match answer {
        Some(Ok(()) | Err(ReleaseError::AlreadyLost(_) | ReleaseError::ReleasedOrLost)) => true,
        Some(Err(ReleaseError::Unknown { .. })) | None => false,
    }
}

fn report(inner: &Inner, leaving: &mut [Leaving]) -> ShutdownReport {
    let mut open = inner.reconciler.names();
    inner.table.for_each_busy(|key, slot| open.extend(slot.driven.then(|| key.clone())));
    open.extend(inner.counters.keys());
    let mut unconfirmed = names(&open);
    let mut released = 0;
    for one in leaving {
        // Leases after the one that is waited for may have been answered too.
        let answer = &mut one.answer;
        match *one.confirmed.get_or_insert_with(|| is_confirmed(answer.try_recv().ok())) {
            true => released += 1,
            false => unconfirmed.push(one.lease.key.name().to_owned()),
        }
    }
    ShutdownReport { released, unconfirmed: each_once(unconfirmed) }
}

fn names(keys: &[Arc<LockKey>]) -> Vec<String> {
    keys.iter().map(|key| key.name().to_owned()).collect()
}

fn each_once(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// The longest time that a shutdown waits for the user's recorder.
const RECORDER_MAX: Duration = Duration::from_secs(1);
