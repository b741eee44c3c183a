//! Closes owners in the background: repeats their release until a server has answered it at a time at which nothing
//! of theirs can be executed any more. The rule is in `lease/unanswered.rs`; the promise is S5.
//!
//! # When
//! Right away, then when the last send should be too late, then with back-off. Tries that had no answer do not count for
//! that: the owners of a node that does not answer wait for its first word (`silence`), and for a change of the topology,
//! which tells of a node that is connected again.
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
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::silent_nodes::SilentNodes;
use crate::{
    acquire::{attempt::UnconfirmedOwner, driver},
    clock::Instant,
    dispatch::per_node_limit::PerNodeLimit,
    guard,
    inner::Inner,
    key::LockKey,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    metrics::Operation,
    routing::topology::{ClockId, NodeId, Topology},
    transport::{Release, ReleaseReply, TransportError},
};

/// The owners that are being closed.
#[derive(Debug)]
pub(crate) struct Reconciler {
    waiting: Mutex<Waiting>,
    news: Notify,
    /// Whether owners wait for a word of some node.
    silent: AtomicBool,
}

#[derive(Debug)]
struct Waiting {
    due: BTreeMap<Place, OpenOwner>,
    /// Those whose release is on its way, or waits for room at their node.
    in_flight: BTreeMap<u64, Arc<LockKey>>,
    per_node: PerNodeLimit<OpenOwner>,
    silent_nodes: SilentNodes,
    topology_epoch: Option<u64>,
    next: u64,
}

/// When an owner's next release is due, and its number.
pub(crate) type Place = (Instant, u64);

/// An owner on its way out.
#[derive(Debug)]
struct OpenOwner {
    number: u64,
    key: Arc<LockKey>,
    closing: UnconfirmedOwner,
    /// Releases that a server has answered, or refused for good.
    tries: u32,
    /// Who answered the last release, if a server did.
    answered_by: Option<ClockId>,
    /// The node that did not answer the last one, while it is not heard of.
    silent: Option<Option<NodeId>>,
    /// When the last release was sent.
    sent: Instant,
    /// How often none was answered although the node had just been heard of: it may answer for one slot and not for
    /// another.
    in_vain: u32,
    /// The last one was sent because the node had been heard of.
    woken: bool,
}

impl OpenOwner {
    fn new(number: u64, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> Self {
        let key = key.clone();
        let (sent, silent, answered_by) = (Instant::default(), None, None);
        Self { number, key, closing, tries: 0, answered_by, silent, sent, in_vain: 0, woken: false }
    }

    /// Its node was heard of: when it is due. Not at once if it was not answered after the last such word.
    fn handle_word(&mut self, now: Instant) -> Instant {
        (self.silent, self.woken) = (None, true);
        if self.in_vain == 0 { now } else { now.max(self.sent + back_off(self.in_vain - 1)) }
    }

    /// The topology has changed, of its node or of another one: it is due at once, and what failed before counts no more.
    fn handle_topology(&mut self, now: Instant) -> Instant {
        (self.silent, self.woken, self.in_vain) = (None, false, 0);
        now
    }
}

impl Reconciler {
    pub(crate) fn new() -> Self {
        let waiting = Waiting {
            due: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            per_node: PerNodeLimit::new(IN_FLIGHT_MAX),
            silent_nodes: SilentNodes::default(),
            topology_epoch: None,
            next: 0,
        };
        Self { waiting: Mutex::new(waiting), news: Notify::new(), silent: AtomicBool::new(false) }
    }

    /// The node has answered: every owner that waits for it is due.
    pub(crate) fn handle_answer_of(&self, inner: &Inner, node: NodeId) {
        if self.silent.load(Ordering::Relaxed) {
            self.end_silence(inner, Some(node));
        }
    }

    fn end_silence(&self, inner: &Inner, node: Option<NodeId>) {
        let mut waiting = self.lock();
        let places = waiting.silent_nodes.end(node);
        let now = inner.clock.now();
        waiting.make_due(places, |owner| owner.handle_word(now));
        self.silent.store(!waiting.silent_nodes.is_empty(), Ordering::Relaxed);
        drop(waiting);
        self.news.notify_one();
    }

    /// Takes an owner over. Its first release goes out at once.
    pub(crate) fn add(&self, inner: &Inner, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
        self.track(inner, key, closing, inner.clock.now());
    }

    /// Takes over the owner of a lost lease. Who holds it still has the margin to notice and to stop: `run` drops its
    /// work before anything is released. So the release goes out when the last holder has gone, or after the margin.
    /// What the server has said is not ours needs none, unless something of it may yet be executed.
    pub(crate) fn add_lost(&self, inner: &Inner, lease: &LeaseCore, reason: LossReason) {
        let mut closing = lease.to_closing();
        closing.may_hold = reason != LossReason::NotOurs;
        if !closing.may_hold && closing.open.is_closed() {
            return;
        }
        let now = inner.clock.now();
        let due = if lease.was_taken() { now + state::margin(lease.ttl()) } else { now };
        lease.note_closing(self.track(inner, &lease.key, closing, due));
        if lease.holds() == 0 {
            self.expedite(inner, lease); // gone before its place was noted
        }
    }

    /// The last holder of a lost lease has gone.
    pub(crate) fn expedite(&self, inner: &Inner, lease: &LeaseCore) {
        let Some(place) = lease.closing() else { return };
        let mut waiting = self.lock();
        if let Some(owner) = waiting.due.remove(&place) {
            waiting.put(inner.clock.now().min(place.0), owner);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn track(&self, inner: &Inner, key: &Arc<LockKey>, closing: UnconfirmedOwner, due: Instant) -> Place {
        inner.events.totals.closing.add(1);
        inner.events.closing(true);
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.put(due, OpenOwner::new(number, key, closing));
        drop(waiting);
        self.news.notify_one();
        (due, number)
    }

    /// The same for one whose first release the caller sends itself.
    fn begin(&self, inner: &Inner, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> OpenOwner {
        inner.events.totals.closing.add(1);
        inner.events.closing(true);
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.in_flight.insert(number, key.clone());
        OpenOwner::new(number, key, closing)
    }

    fn put_back(&self, due: Instant, owner: OpenOwner) {
        self.lock().put(due, owner);
        self.news.notify_one();
    }

    /// The same for one whose node did not answer.
    fn put_back_in_silence(&self, now: Instant, node: Option<NodeId>, mut owner: OpenOwner) {
        let mut waiting = self.lock();
        owner.silent = Some(node);
        owner.in_vain += u32::from(std::mem::take(&mut owner.woken));
        let due = waiting.silent_nodes.add(node, owner.number, now);
        waiting.put(due, owner);
        self.silent.store(true, Ordering::Relaxed);
        drop(waiting);
        self.news.notify_one();
    }

    /// Who is due and finds room at its node, with that node; otherwise when to look again.
    fn take_due(&self, inner: &Inner) -> Result<(OpenOwner, Option<NodeId>), Option<Instant>> {
        let (topology, now) = (inner.calls.topology(), inner.clock.now());
        let mut waiting = self.lock();
        waiting.handle_topology(topology.as_deref(), now);
        loop {
            let owner = match waiting.due.first_key_value() {
                Some(((due, _), _)) if *due <= now => waiting.take_first(now),
                next => return Err(next.map(|((due, _), _)| *due)),
            };
            let Some(owner) = owner else { continue };
            waiting.in_flight.insert(owner.number, owner.key.clone());
            let node = topology.as_ref().and_then(|topology| topology.serving(owner.key.slot()));
            let node = node.map(|node| node.id);
            if let Some(owner) = waiting.per_node.enter(node, owner) {
                return Ok((owner, node));
            }
        }
    }

    fn leave(&self, inner: &Inner, node: Option<NodeId>) {
        let mut waiting = self.lock();
        if let Some(next) = waiting.per_node.leave(node) {
            waiting.put(inner.clock.now(), next);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn remove(&self, owner: &OpenOwner) {
        self.lock().in_flight.remove(&owner.number);
    }

    /// Whether every owner is closed.
    pub(crate) fn is_done(&self, inner: &Inner) -> bool {
        inner.events.totals.closing.value() == 0
    }

    /// The names of the locks whose owners are not closed.
    pub(crate) fn names(&self) -> Vec<Arc<LockKey>> {
        let waiting = self.lock();
        waiting.due.values().map(|owner| &owner.key).chain(waiting.in_flight.values()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the first release itself and waits for its answer; the closer does the rest, if there is any.
pub(crate) async fn give_back(inner: &Inner, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
    let mut owner = inner.reconciler.begin(inner, key, closing);
    let node = inner.calls.topology().and_then(|topology| topology.serving(key.slot()).map(|node| node.id));
    let outcome = release_guarded(inner, &mut owner).await;
    finish(inner, owner, node, outcome);
}

impl Waiting {
    fn put(&mut self, due: Instant, owner: OpenOwner) {
        self.in_flight.remove(&owner.number);
        self.due.insert((due, owner.number), owner);
    }

    // Who waits for room at a node may find it at another one, and who waits for a silent one may find it connected.
    fn handle_topology(&mut self, topology: Option<&Topology>, now: Instant) {
        let epoch = topology.map(Topology::epoch);
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            self.per_node.take_waiting().into_iter().for_each(|owner| self.put(now, owner));
            let places = self.silent_nodes.end_all();
            self.make_due(places, |owner| owner.handle_topology(now));
        }
    }

    fn make_due(&mut self, places: impl IntoIterator<Item = Place>, due: impl Fn(&mut OpenOwner) -> Instant) {
        for place in places {
            if let Some(mut owner) = self.due.remove(&place) {
                self.put(due(&mut owner), owner);
            }
        }
    }

    // The next one of the same silent node takes its turn.
    fn take_first(&mut self, now: Instant) -> Option<OpenOwner> {
        let (place, mut owner) = self.due.pop_first()?;
        let next = owner.silent.take().and_then(|node| self.silent_nodes.take(node, place, now));
        if let Some((place, due)) = next {
            let next = self.due.remove(&place);
            self.due.extend(next.map(|owner| ((due, owner.number), owner)));
        }
        Some(owner)
    }
}

/// A patient's room at its node, until its treatment has ended in whatever way.
struct NodePermit {
    inner: Arc<Inner>,
    node: Option<NodeId>,
}

impl Drop for NodePermit {
    fn drop(&mut self) {
        self.inner.reconciler.leave(&self.inner, self.node);
    }
}

/// Serves the closer until the engine has ended. One task, on the calls thread.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        match inner.reconciler.take_due(&inner) {
            Ok((owner, node)) => send_release(&inner, owner, node),
            Err(next) => wait(&inner, next).await,
        }
    }
}

async fn wait(inner: &Inner, next: Option<Instant>) {
    let timer = async {
        match next {
            Some(moment) => inner.clock.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = timer => {}
        () = inner.reconciler.news.notified() => {}
        () = inner.calls.topology_changed() => {}
    }
}

fn send_release(inner: &Arc<Inner>, mut owner: OpenOwner, node: Option<NodeId>) {
    let inner = inner.clone();
    inner.clone().spawn(async move {
        let _room = NodePermit { inner: inner.clone(), node };
        let outcome = release_guarded(&inner, &mut owner).await;
        finish(&inner, owner, node, outcome);
    });
}

/// What a release has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendOutcome {
    /// A present server has answered it, or refuses it for good.
    Word,
    /// Nothing of use.
    Nothing,
}

// A transport that panics leaves the release unanswered, not the owner open for ever.
async fn release_guarded(inner: &Inner, owner: &mut OpenOwner) -> SendOutcome {
    guard::run(release(inner, owner)).await.unwrap_or(SendOutcome::Nothing)
}

async fn release(inner: &Inner, owner: &mut OpenOwner) -> SendOutcome {
    owner.answered_by = None;
    let Some(lane) = inner.calls.lane() else { return SendOutcome::Nothing };
    let sent = inner.clock.now();
    owner.sent = sent;
    let answer = lane.release(Release { key: owner.key.clone(), owner: owner.closing.owner }).await;
    inner.events.answered(Operation::Release, inner.clock.now() - sent, answer.as_ref().err());
    let at = match answer {
        Ok(ReleaseReply::Released { at, .. } | ReleaseReply::NotYours { at }) => at,
        Err(last_error) => return heard_by(&last_error),
    };
    if driver::check_epoch(inner, at).is_err() {
        return SendOutcome::Nothing;
    }
    owner.answered_by = Some(at.clock);
    owner.closing.may_hold = false;
    owner.closing.open.handle_release(at);
    inner.reconciler.handle_answer_of(inner, at.clock.node);
    SendOutcome::Word
}

fn heard_by(last_error: &TransportError) -> SendOutcome {
    if last_error.kind.is_final() { SendOutcome::Word } else { SendOutcome::Nothing }
}

fn finish(inner: &Inner, mut owner: OpenOwner, node: Option<NodeId>, outcome: SendOutcome) {
    let now = inner.clock.now();
    let OpenOwner { key, closing, answered_by, .. } = &mut owner;
    closing.may_hold &= now <= closing.gone_by;
    let is_gone = |clock| {
        let serves = inner.calls.is_serving(clock, key.slot());
        !serves || answered_by.is_some_and(|answered_by| answered_by != clock)
    };
    // Each by its own time: what a later server has confirmed since keeps the lock for longer, not the send open.
    closing.open.forget_gone(now, is_gone);
    if !owner.closing.may_hold && owner.closing.open.is_closed() {
        inner.reconciler.remove(&owner);
        inner.events.totals.closing.sub(1);
        inner.events.closing(false);
        return;
    }
    owner.tries += u32::from(outcome == SendOutcome::Word);
    match outcome {
        SendOutcome::Word => inner.reconciler.put_back(next_try(&owner, now), owner),
        SendOutcome::Nothing => inner.reconciler.put_back_in_silence(now, node, owner),
    }
}

// Right away, then when the last send should be too late, then with back-off.
fn next_try(owner: &OpenOwner, now: Instant) -> Instant {
    let back_off = now + back_off(owner.tries);
    match owner.closing.open.execute_by() {
        Some(last) if last + SLACK > now && !owner.closing.may_hold => last + SLACK,
        Some(last) if last + SLACK > now => back_off.min(last + SLACK),
        Some(_) | None => back_off,
    }
}

fn back_off(tries: u32) -> Duration {
    (BACKOFF_MIN * 2u32.saturating_pow(tries.min(12))).min(BACKOFF_MAX)
}

/// On each node. Enough for one that comes back; few enough that the lane is not crowded out.
const IN_FLIGHT_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A release a little after the latest execution time closes at the first try.
const SLACK: Duration = Duration::from_millis(20);
