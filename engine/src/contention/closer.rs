//! Closes owners in the background: repeats their release until a server has answered it at a time at which nothing
//! of theirs can be executed any more. See `guarantees.md`, "Closing an owner", and promise S5.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, Semaphore};

use super::{attempt::Closing, driver};
use crate::{
    clock::Instant,
    key::LockKey,
    transport::{Release, ReleaseReply},
    works::Works,
};

/// The owners that are being closed.
#[derive(Debug)]
pub(crate) struct Closer {
    waiting: Mutex<Waiting>,
    news: Notify,
    in_flight: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Waiting {
    due: BTreeMap<(Instant, u64), Patient>,
    next: u64,
}

/// An owner on its way out.
#[derive(Debug)]
struct Patient {
    key: Arc<LockKey>,
    closing: Closing,
    tries: u32,
}

impl Closer {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            news: Notify::new(),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        }
    }

    /// Takes an owner over. Its first release goes out at once.
    pub(crate) fn add(&self, works: &Works, key: &Arc<LockKey>, closing: Closing) {
        let patient = self.begin(works, key, closing);
        self.put(works.clock.now(), patient);
    }

    fn begin(&self, works: &Works, key: &Arc<LockKey>, closing: Closing) -> Patient {
        works.events.totals.closing.add(1);
        works.events.closing(true);
        Patient { key: key.clone(), closing, tries: 0 }
    }

    fn put(&self, due: Instant, patient: Patient) {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.due.insert((due, number), patient);
        drop(waiting);
        self.news.notify_one();
    }

    fn take_due(&self, now: Instant) -> Result<Patient, Option<Instant>> {
        let mut waiting = self.lock();
        match waiting.due.first_entry() {
            Some(first) if first.key().0 <= now => Ok(first.remove()),
            Some(first) => Err(Some(first.key().0)),
            None => Err(None),
        }
    }

    /// Whether every owner is closed.
    pub(crate) fn is_done(&self, works: &Works) -> bool {
        works.events.totals.closing.value() == 0
    }

    /// The names of the locks whose owners are not closed.
    pub(crate) fn names(&self) -> Vec<Arc<LockKey>> {
        self.lock().due.values().map(|patient| patient.key.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the first release itself and waits for its answer; the closer does the rest, if there is any.
pub(crate) async fn give_back(works: &Works, key: &Arc<LockKey>, closing: Closing) {
    let mut patient = works.closer.begin(works, key, closing);
    release(works, &mut patient).await;
    finish(works, patient);
}

/// Serves the closer until the engine ends. One task, on the calls thread.
pub(crate) async fn run(works: Arc<Works>) {
    loop {
        match works.closer.take_due(works.clock.now()) {
            Ok(patient) => treat(&works, patient).await,
            Err(next) => wait(&works, next).await,
        }
    }
}

async fn wait(works: &Works, next: Option<Instant>) {
    let timer = async {
        match next {
            Some(moment) => works.clock.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = timer => {}
        () = works.closer.news.notified() => {}
    }
}

async fn treat(works: &Arc<Works>, mut patient: Patient) {
    let permit = works.closer.in_flight.clone().acquire_owned().await;
    let works = works.clone();
    works.clone().spawn(async move {
        let _permit = permit;
        release(&works, &mut patient).await;
        finish(&works, patient);
    });
}

async fn release(works: &Works, patient: &mut Patient) {
    patient.tries += 1;
    let Some(lane) = works.calls.lane() else { return };
    let answer = lane.release(Release { key: patient.key.clone(), owner: patient.closing.owner }).await;
    let at = match answer {
        Ok(ReleaseReply::Released { at, .. } | ReleaseReply::NotYours { at }) => at,
        Err(trouble) => return works.events.unanswered("release", &trouble),
    };
    if driver::check_epoch(works, at).is_ok() {
        patient.closing.may_hold = false;
        patient.closing.open.handle_release(at);
    }
}

fn finish(works: &Works, mut patient: Patient) {
    let now = works.clock.now();
    if now > patient.closing.gone_by {
        patient.closing.may_hold = false;
        patient.closing.open.forget_gone(now, |clock| !works.calls.is_current(clock));
    }
    if !patient.closing.may_hold && patient.closing.open.is_closed() {
        works.events.totals.closing.sub(1);
        works.events.closing(false);
        return;
    }
    let due = next_try(&patient, now);
    works.closer.put(due, patient);
}

// Right away, then when the last send should be too late, then with back-off.
fn next_try(patient: &Patient, now: Instant) -> Instant {
    let back_off = now + (BACKOFF_MIN * 2u32.saturating_pow(patient.tries.min(12))).min(BACKOFF_MAX);
    match patient.closing.open.execute_by() {
        Some(last) if last + SLACK > now && !patient.closing.may_hold => last + SLACK,
        Some(last) if last + SLACK > now => back_off.min(last + SLACK),
        Some(_) | None => back_off,
    }
}

/// Enough for a node that comes back; few enough that the lane is not crowded out.
const IN_FLIGHT_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A release a little after the latest execution time closes at the first try.
const SLACK: Duration = Duration::from_millis(20);
