//! Closes owners in the background: repeats their release until a server has answered it at a time at which nothing
//! of theirs can be executed any more. The rule is in `lease/open_sends.rs`; the promise is S5.
//!
//! # A server that does not answer for the key any more
//! An open send to server X is closed by X's own word, given later than the send's latest execution time. X cannot give
//! it if it is gone, or another run, or if the key's slot was moved away: then it is Y who answers the releases, and
//! times of X and Y are never compared. So X counts as gone for this key, and its sends are closed once their latest
//! execution time and the ttl have passed on our clock, when
//! - X's run is not the present one (failover, restart, removal), or
//! - X does not serve the key's slot, or
//! - the release just sent was answered by another present server, whatever the table says: X, or the transport on its
//!   behalf, has sent it on (a slot in migration answers ASK for keys it does not have; the table may be behind, and a
//!   migration may be left half done for ever).
//!
//! Why that is enough: a server executes nothing for a slot that it does not serve, and nothing for a key that it has
//! handed over while its slot is in migration, so what is queued in X's sockets does nothing there. What X did execute
//! before has moved with the slot, where a release finds it (`may_hold` ends with an answer of any present server), or
//! has run out with its ttl. *The slot moves back to X in time*: X serves it, counts as there, and gives its word.
//! *It moves back afterwards*: X's own clock has passed the latest execution time then, and X checks it. The one
//! assumption beyond those for a present X is that of a server that is gone: X's clock was not set back by more than ttl
//! and margin meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{attempt::Closing, driver, wards::Wards};
use crate::{
    clock::Instant,
    guard,
    key::LockKey,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    metrics::Operation,
    routing::topology::{ClockId, NodeId, Topology},
    transport::{Release, ReleaseReply},
    works::Works,
};

/// The owners that are being closed.
#[derive(Debug)]
pub(crate) struct Closer {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug)]
struct Waiting {
    due: BTreeMap<Place, Patient>,
    /// Those whose release is on its way, or waits for room at their node.
    treated: BTreeMap<u64, Arc<LockKey>>,
    wards: Wards<Patient>,
    topology_epoch: Option<u64>,
    next: u64,
}

/// When an owner's next release is due, and its number.
pub(crate) type Place = (Instant, u64);

/// An owner on its way out.
#[derive(Debug)]
struct Patient {
    number: u64,
    key: Arc<LockKey>,
    closing: Closing,
    tries: u32,
    /// Who answered the last release, if somebody did.
    answered_by: Option<ClockId>,
}

impl Patient {
    fn new(number: u64, key: &Arc<LockKey>, closing: Closing) -> Self {
        Self { number, key: key.clone(), closing, tries: 0, answered_by: None }
    }
}

impl Closer {
    pub(crate) fn new() -> Self {
        let waiting = Waiting {
            due: BTreeMap::new(),
            treated: BTreeMap::new(),
            wards: Wards::new(IN_FLIGHT_MAX),
            topology_epoch: None,
            next: 0,
        };
        Self { waiting: Mutex::new(waiting), news: Notify::new() }
    }

    /// Takes an owner over. Its first release goes out at once.
    pub(crate) fn add(&self, works: &Works, key: &Arc<LockKey>, closing: Closing) {
        self.admit(works, key, closing, works.clock.now());
    }

    /// Takes over the owner of a lost lease. Who holds it still has the margin to notice and to stop: `run` drops its
    /// work before anything is released. So the release goes out when the last holder has gone, or after the margin.
    /// What the server has said is not ours needs none, unless something of it may yet be executed.
    pub(crate) fn add_lost(&self, works: &Works, lease: &LeaseCore, reason: LossReason) {
        let mut closing = lease.to_closing();
        closing.may_hold = reason != LossReason::NotOurs;
        if !closing.may_hold && closing.open.is_closed() {
            return;
        }
        let now = works.clock.now();
        let due = if lease.was_taken() { now + state::margin(lease.ttl()) } else { now };
        lease.note_closing(self.admit(works, &lease.key, closing, due));
        if lease.holds() == 0 {
            self.hurry(works, lease); // gone before its place was noted
        }
    }

    /// The last holder of a lost lease has gone.
    pub(crate) fn hurry(&self, works: &Works, lease: &LeaseCore) {
        let Some(place) = lease.closing() else { return };
        let mut waiting = self.lock();
        if let Some(patient) = waiting.due.remove(&place) {
            waiting.put(works.clock.now().min(place.0), patient);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn admit(&self, works: &Works, key: &Arc<LockKey>, closing: Closing, due: Instant) -> Place {
        works.events.totals.closing.add(1);
        works.events.closing(true);
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.put(due, Patient::new(number, key, closing));
        drop(waiting);
        self.news.notify_one();
        (due, number)
    }

    /// The same for one whose first release the caller sends itself.
    fn begin(&self, works: &Works, key: &Arc<LockKey>, closing: Closing) -> Patient {
        works.events.totals.closing.add(1);
        works.events.closing(true);
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.treated.insert(number, key.clone());
        Patient::new(number, key, closing)
    }

    fn put_back(&self, due: Instant, patient: Patient) {
        self.lock().put(due, patient);
        self.news.notify_one();
    }

    /// Who is due and finds room at its node, with that node; otherwise when to look again.
    fn take_due(&self, works: &Works) -> Result<(Patient, Option<NodeId>), Option<Instant>> {
        let (topology, now) = (works.calls.topology(), works.clock.now());
        let mut waiting = self.lock();
        waiting.handle_topology(topology.as_deref(), now);
        loop {
            let patient = match waiting.due.first_entry() {
                Some(first) if first.key().0 <= now => first.remove(),
                Some(first) => return Err(Some(first.key().0)),
                None => return Err(None),
            };
            waiting.treated.insert(patient.number, patient.key.clone());
            let node = topology.as_ref().and_then(|topology| topology.serving(patient.key.slot()));
            let node = node.map(|node| node.id);
            if let Some(patient) = waiting.wards.enter(node, patient) {
                return Ok((patient, node));
            }
        }
    }

    fn leave(&self, works: &Works, node: Option<NodeId>) {
        let mut waiting = self.lock();
        if let Some(next) = waiting.wards.leave(node) {
            waiting.put(works.clock.now(), next);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn discharge(&self, patient: &Patient) {
        self.lock().treated.remove(&patient.number);
    }

    /// Whether every owner is closed.
    pub(crate) fn is_done(&self, works: &Works) -> bool {
        works.events.totals.closing.value() == 0
    }

    /// The names of the locks whose owners are not closed.
    pub(crate) fn names(&self) -> Vec<Arc<LockKey>> {
        let waiting = self.lock();
        waiting.due.values().map(|patient| &patient.key).chain(waiting.treated.values()).cloned().collect()
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

impl Waiting {
    fn put(&mut self, due: Instant, patient: Patient) {
        self.treated.remove(&patient.number);
        self.due.insert((due, patient.number), patient);
    }

    // Who waits for room at a node may find it at another one.
    fn handle_topology(&mut self, topology: Option<&Topology>, now: Instant) {
        let epoch = topology.map(Topology::epoch);
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            self.wards.take_waiting().into_iter().for_each(|patient| self.put(now, patient));
        }
    }
}

/// A patient's room at its node, until its treatment has ended in whatever way.
struct Room {
    works: Arc<Works>,
    node: Option<NodeId>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.works.closer.leave(&self.works, self.node);
    }
}

/// Serves the closer until the engine has ended. One task, on the calls thread.
pub(crate) async fn run(works: Arc<Works>) {
    loop {
        match works.closer.take_due(&works) {
            Ok((patient, node)) => treat(&works, patient, node),
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
        () = works.calls.topology_changed() => {}
    }
}

fn treat(works: &Arc<Works>, mut patient: Patient, node: Option<NodeId>) {
    let works = works.clone();
    works.clone().spawn(async move {
        let _room = Room { works: works.clone(), node };
        // A transport that panics leaves the release unanswered, not the owner open for ever.
        let _ = guard::run(release(&works, &mut patient)).await;
        finish(&works, patient);
    });
}

async fn release(works: &Works, patient: &mut Patient) {
    patient.tries += 1;
    patient.answered_by = None;
    let Some(lane) = works.calls.lane() else { return };
    let sent = works.clock.now();
    let answer = lane.release(Release { key: patient.key.clone(), owner: patient.closing.owner }).await;
    works.events.answered(Operation::Release, works.clock.now() - sent, answer.as_ref().err());
    let at = match answer {
        Ok(ReleaseReply::Released { at, .. } | ReleaseReply::NotYours { at }) => at,
        Err(_) => return,
    };
    if driver::check_epoch(works, at).is_ok() {
        patient.answered_by = Some(at.clock);
        patient.closing.may_hold = false;
        patient.closing.open.handle_release(at);
    }
}

fn finish(works: &Works, mut patient: Patient) {
    let now = works.clock.now();
    let Patient { key, closing, answered_by, .. } = &mut patient;
    closing.may_hold &= now <= closing.gone_by;
    let is_gone = |clock| {
        let serves = works.calls.is_serving(clock, key.slot());
        !serves || answered_by.is_some_and(|answered_by| answered_by != clock)
    };
    // Each by its own time: what a later server has confirmed since keeps the lock for longer, not the send open.
    closing.open.forget_gone(now, is_gone);
    if !patient.closing.may_hold && patient.closing.open.is_closed() {
        works.closer.discharge(&patient);
        works.events.totals.closing.sub(1);
        works.events.closing(false);
        return;
    }
    let due = next_try(&patient, now);
    works.closer.put_back(due, patient);
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

/// On each node. Enough for one that comes back; few enough that the lane is not crowded out.
const IN_FLIGHT_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A release a little after the latest execution time closes at the first try.
const SLACK: Duration = Duration::from_millis(20);
