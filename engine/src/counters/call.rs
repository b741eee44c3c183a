//! Queues the callers of counters, and removes callers that leave.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    driver,
    entry::work::{Caller, CallerId, Outcome, Patience, Work},
    reply_to::{Answer, TakesBack},
};
use crate::{
    clock::Instant,
    count_error::CountError,
    error::{AcquireError, Invalid},
    guard,
    inner::Inner,
    key::LockKey,
    transport::Counter,
};

/// What a caller asks of which counter.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: Arc<LockKey>,
    pub(crate) counter: Counter,
    pub(crate) work: Work,
    pub(crate) patience: Patience,
    pub(crate) joined: Instant,
}

/// A queued caller. Dropping it removes the caller; its permits, if it was given some, go back.
pub(crate) struct Queued {
    answer: oneshot::Receiver<Answer>,
    place: Place,
}

struct Place {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
    id: CallerId,
    answered: bool,
}

impl Queued {
    /// Waits for the answer. `None`: the engine has ended.
    pub(crate) async fn outcome(mut self) -> Option<Outcome> {
        let answer = (&mut self.answer).await;
        self.place.answered = true;
        answer.ok().map(Answer::accept)
    }
}

/// Queues a caller.
///
/// # Errors
/// `ShuttingDown`, `LimitReached`, or `Invalid` if this engine uses the name as another counter now.
pub(crate) fn join(inner: &Arc<Inner>, call: &Call) -> Result<Queued, CountError> {
    let (reply_to, answer) = oneshot::channel();
    let Call { ref key, counter, work, patience, joined } = *call;
    check_limit(inner)?;
    let queued = inner.counters.with(key, counter, |slot| {
        inner.check_open().map_err(|_: AcquireError| CountError::ShuttingDown)?;
        // Minted under the lock: the order of the numbers is the order of the callers.
        let id = inner.next_id();
        inner.events.totals.callers.add(1);
        slot.entry.join(Caller { id, work, patience, joined, reply_to });
        slot.poke.notify_one();
        Ok::<_, CountError>((id, !std::mem::replace(&mut slot.driven, true)))
    });
    let (id, start) = queued.map_err(|other| in_use(key, other))??;
    if start {
        driver::start(inner, key, counter);
    }
    Ok(Queued { answer, place: Place { inner: inner.clone(), key: key.clone(), id, answered: false } })
}

fn check_limit(inner: &Inner) -> Result<(), CountError> {
    let (limit, value) = ("waiters_max", inner.config.waiters_max);
    match inner.events.totals.callers.value() >= value as u64 {
        true => Err(CountError::LimitReached { limit, value }),
        false => Ok(()),
    }
}

fn in_use(key: &LockKey, other: Counter) -> CountError {
    let remedy = format!("is in use as a {other} in this engine; use another name");
    Invalid::new("name", format_args!("{:?}", key.name()), remedy).into()
}

/// Dismisses the callers that wait, because the engine is shutting down. Releases and count-downs go on.
pub(crate) fn dismiss_all(inner: &Inner) {
    for key in inner.counters.keys() {
        let callers = inner.counters.with_known(&key, |slot| {
            slot.poke.notify_one();
            slot.entry.depart_all()
        });
        let callers = callers.unwrap_or_default();
        inner.events.totals.callers.sub(callers.len() as u64);
        guard::drop_each(callers); // dropping a caller answers it, and its waker may panic
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.answered || self.inner.process.is_forked() {
            return;
        }
        let gone = self.inner.counters.with_known(&self.key, |slot| {
            slot.poke.notify_one();
            slot.entry.depart(self.id)
        });
        if gone.flatten().is_some() {
            self.inner.events.totals.callers.sub(1);
        }
    }
}

impl TakesBack for Inner {
    fn take_back(self: Arc<Self>, key: &Arc<LockKey>, permits: u64) {
        if self.process.is_forked() {
            return;
        }
        let start = self.counters.with(key, Counter::Semaphore, |slot| {
            slot.entry.give_back(permits);
            slot.poke.notify_one();
            !std::mem::replace(&mut slot.driven, true)
        });
        if start == Ok(true) {
            driver::start(&self, key, Counter::Semaphore);
        }
    }
}
