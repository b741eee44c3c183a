//! The owners that are closed in the background: their release is repeated until a server has answered it at a time at
//! which no send of theirs can be executed any more. The rule is in `lease/unanswered.rs`; the promise is S5.
//!
//! # When
//! At once, then when the last send is too late to be executed, then with back-off. A release without an answer does
//! not count for the back-off: the owners of a node that does not answer wait for its first answer (`silent_nodes`), or
//! for a change of the topology, which shows that a node is connected again.
//!
//! # A server that no longer answers for the key
//! An unanswered send to server X is closed by an answer of X itself, given later than the send's latest execution
//! time. X cannot give that answer if X is gone, if X has another run now, or if the key's slot was moved away. Then
//! another server Y answers the releases, and times of X and Y are never compared. So X counts as gone for this key,
//! and the sends to X are closed once their latest execution time and the ttl have passed on the engine's clock, when
//! - X's run is not the present one (failover, restart, removal), or
//! - X does not serve the key's slot, or
//! - another present server has answered the release just sent, whatever the topology says. Then X has redirected the
//!   release, or the transport has done so on behalf of X: a server whose slot is in migration answers ASK for keys
//!   that it does not have. The topology may be out of date, and a migration may be left half done for ever.
//!
//! Why that is enough: a server executes nothing for a slot that it does not serve, and nothing for a key that it has
//! handed over while its slot is in migration, so what is queued in X's sockets does nothing there. What X did execute
//! before has moved with the slot, where a release finds it (`may_hold` ends with an answer of any present server), or
//! has run out with its ttl. *The slot moves back to X in time*: X serves it, counts as there, and gives its word.
//! *It moves back afterwards*: X's own clock has passed the latest execution time then, and X checks it. The one
//! assumption beyond those for a present X is that of a server that is gone: X's clock was not set back by more than
//! ttl and margin meanwhile.

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
    clock::Instant,
    core::Core,
    dispatch::per_node_limit::PerNodeLimit,
    key::LockKey,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
        unconfirmed_owner::{ReleaseDue, UnconfirmedOwner},
    },
    metrics::EngineEvent,
    routing::topology::{ClockId, NodeId, Topology},
    transport::HoldKind,
};

/// The owners that are being closed.
#[derive(Debug)]
pub(crate) struct Reconciler {
    waiting: Mutex<Waiting>,
    news: Notify,
    /// Whether owners wait for an answer of a silent node.
    silent: AtomicBool,
}

#[derive(Debug)]
struct Waiting {
    due: BTreeMap<ReleaseDue, OpenOwner>,
    /// The owners whose release is in flight, or waits for a place in the limit of their node.
    in_flight: BTreeMap<u64, Arc<LockKey>>,
    per_node: PerNodeLimit<OpenOwner>,
    silent_nodes: SilentNodes,
    topology_epoch: Option<u64>,
    next: u64,
}

/// An owner that is being closed.
#[derive(Debug)]
pub(super) struct OpenOwner {
    number: u64,
    pub(super) key: Arc<LockKey>,
    pub(super) closing: UnconfirmedOwner,
    /// The number of releases that a server has answered, or refused for good.
    tries: u32,
    /// The server that answered the last release, if a server did.
    pub(super) answered_by: Option<ClockId>,
    /// The node that did not answer the last release, until that node answers anything.
    silent: Option<Option<NodeId>>,
    /// When the last release was sent.
    pub(super) sent: Instant,
    /// How many releases got no answer although the node had just answered another request. A node may answer for one
    /// slot and not for another.
    in_vain: u32,
    /// The last release was sent because the node had answered another request.
    woken: bool,
}

/// The outcome of sending a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// A present server has answered the release, or refuses it for good.
    Answered,
    /// No present server has answered the release.
    Unanswered,
}

impl OpenOwner {
    fn new(number: u64, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> Self {
        let key = key.clone();
        let (sent, silent, answered_by) = (Instant::default(), None, None);
        Self { number, key, closing, tries: 0, answered_by, silent, sent, in_vain: 0, woken: false }
    }

    /// The node has answered a request. Returns when the owner is due: not at once if its release got no answer after
    /// the last answer of the node.
    fn handle_word(&mut self, now: Instant) -> Instant {
        (self.silent, self.woken) = (None, true);
        if self.in_vain == 0 { now } else { now.max(self.sent + back_off(self.in_vain - 1)) }
    }

    /// The topology has changed. The owner is due at once, and earlier failures do not count any more.
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

    /// The node has answered, so every owner that waits for this node becomes due.
    pub(crate) fn handle_answer_of(&self, core: &Core, node: NodeId) {
        if self.silent.load(Ordering::Relaxed) {
            self.end_silence(core, Some(node));
        }
    }

    fn end_silence(&self, core: &Core, node: Option<NodeId>) {
        let mut waiting = self.lock();
        let places = waiting.silent_nodes.end(node);
        let now = core.clock.now();
        waiting.make_due(places, |owner| owner.handle_word(now));
        self.silent.store(!waiting.silent_nodes.is_empty(), Ordering::Relaxed);
        drop(waiting);
        self.news.notify_one();
    }

    /// Takes over an owner. Its first release is due at once.
    pub(crate) fn add(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
        self.track(core, key, closing, core.clock.now());
    }

    /// Takes over the owner of a lost lease. The holder has the margin to notice the loss and to stop: `run` drops its
    /// work before anything is released. So the release is sent when the last holder has dropped the lease, or after
    /// the margin. A lease that the server does not know as ours needs no release, unless one of its sends may still be
    /// executed, or only some of its permits are gone.
    pub(crate) fn add_lost(&self, core: &Core, lease: &LeaseCore, reason: LossReason) {
        let mut closing = lease.to_closing();
        let may_have_rest = matches!(lease.kind(), HoldKind::Permits(permits) if permits.get() > 1);
        closing.may_hold = reason != LossReason::NotOurs || may_have_rest;
        if !closing.may_hold && closing.open.is_closed() {
            return;
        }
        let now = core.clock.now();
        let due = if lease.was_taken() { now + state::margin(lease.ttl()) } else { now };
        lease.note_closing(self.track(core, &lease.key, closing, due));
        if lease.holds() == 0 {
            self.expedite(core, lease); // the last holder has gone before the place was noted
        }
    }

    /// The last holder of a lost lease has gone, so the release of its owner is due at once.
    pub(crate) fn expedite(&self, core: &Core, lease: &LeaseCore) {
        let Some(place) = lease.closing() else { return };
        let mut waiting = self.lock();
        if let Some(owner) = waiting.due.remove(&place) {
            waiting.put(core.clock.now().min(place.0), owner);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn track(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner, due: Instant) -> ReleaseDue {
        core.events.record_engine(EngineEvent::Closing { begins: true });
        let mut waiting = self.lock();
        waiting.next += 1;
        let number = waiting.next;
        waiting.put(due, OpenOwner::new(number, key, closing));
        drop(waiting);
        self.news.notify_one();
        (due, number)
    }

    /// Takes over an owner whose first release the caller of this method sends.
    pub(super) fn begin(&self, core: &Core, key: &Arc<LockKey>, closing: UnconfirmedOwner) -> OpenOwner {
        core.events.record_engine(EngineEvent::Closing { begins: true });
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

    /// Puts back an owner whose node did not answer.
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

    /// An owner that is due and within the limit of its node, with that node. Otherwise when to look again.
    pub(super) fn take_due(&self, core: &Core) -> Result<(OpenOwner, Option<NodeId>), Option<Instant>> {
        let (topology, now) = (core.calls.topology(), core.clock.now());
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

    pub(super) fn leave(&self, core: &Core, node: Option<NodeId>) {
        let mut waiting = self.lock();
        if let Some(next) = waiting.per_node.leave(node) {
            waiting.put(core.clock.now(), next);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn remove(&self, owner: &OpenOwner) {
        self.lock().in_flight.remove(&owner.number);
    }

    /// A send of an owner's release has ended. The owner is now closed, or its next release becomes due.
    pub(super) fn finish(
        &self,
        core: &Core,
        mut owner: OpenOwner,
        node: Option<NodeId>,
        outcome: SendOutcome,
    ) {
        let now = core.clock.now();
        let OpenOwner { key, closing, answered_by, .. } = &mut owner;
        closing.may_hold &= now <= closing.gone_by;
        let is_gone = |clock| {
            let serves = core.calls.is_serving(clock, key.slot());
            !serves || answered_by.is_some_and(|answered_by| answered_by != clock)
        };
        // Each send is closed by its own time. A later confirmation keeps the lock for longer, and no send open.
        closing.open.forget_gone(now, is_gone);
        if !owner.closing.may_hold && owner.closing.open.is_closed() {
            self.remove(&owner);
            core.events.record_engine(EngineEvent::Closing { begins: false });
            return;
        }
        owner.tries += u32::from(outcome == SendOutcome::Answered);
        match outcome {
            SendOutcome::Answered => self.put_back(next_try(&owner, now), owner),
            SendOutcome::Unanswered => self.put_back_in_silence(now, node, owner),
        }
    }

    /// Resolves when an owner was added, or an owner may be due earlier than before.
    pub(super) async fn changed(&self) {
        self.news.notified().await;
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

impl Waiting {
    fn put(&mut self, due: Instant, owner: OpenOwner) {
        self.in_flight.remove(&owner.number);
        self.due.insert((due, owner.number), owner);
    }

    // An owner that waits for the limit of one node may be served by another node now, and a silent node may be
    // connected.
    fn handle_topology(&mut self, topology: Option<&Topology>, now: Instant) {
        let epoch = topology.map(Topology::epoch);
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            self.per_node.take_waiting().into_iter().for_each(|owner| self.put(now, owner));
            let places = self.silent_nodes.end_all();
            self.make_due(places, |owner| owner.handle_topology(now));
        }
    }

    fn make_due(
        &mut self,
        places: impl IntoIterator<Item = ReleaseDue>,
        due: impl Fn(&mut OpenOwner) -> Instant,
    ) {
        for place in places {
            if let Some(mut owner) = self.due.remove(&place) {
                self.put(due(&mut owner), owner);
            }
        }
    }

    // Takes the first owner. If its node is silent, the next owner of that node becomes due after the probe pause.
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

// At once, then when the last send is too late to be executed, then with back-off.
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

/// The maximum number of unanswered releases on each node: enough for a node that comes back, and few enough that other
/// calls of the lane are not delayed.
const IN_FLIGHT_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long after the latest execution time a release is due. Such a release closes the owner at the first try.
const SLACK: Duration = Duration::from_millis(20);
