//! Many locks asked for, or given back, in one call: how many of them are under way on each node, and what waits for it.
//!
//! A list of 100,000 names must not put 100,000 commands in front of the next single caller, so each node has so many
//! rooms (`bulk_in_flight_max`), for all lists together. An acquire keeps its room until its first definite answer: who
//! waits for a lock that is held occupies none. A release keeps it until it is answered. A room that gets free goes to
//! who waits longest for that node.
//!
//! A node that has answered nothing from its rooms for `unavailable_after` would take that long again for each further
//! round. So what waits in front of it is told `Unavailable` as well; releases are left to the closer.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    caller::{CallerId, Patience},
    enqueue::{self, Call, ExplicitTerms},
    reply_to::{BulkReplyTo, ListSender, ReplyTo},
};
use crate::{
    clock::Instant,
    dispatch::per_node_limit::PerNodeLimit,
    error::{AcquireError, ReleaseError},
    inner::Inner,
    key::LockKey,
    lease::shared::{LeaseCore, Terms},
    metrics::ClassId,
    release::send::{self, ReleaseInProgress},
    routing::{slot::Slot, topology::NodeId},
    supervisor,
    transport::TransportError,
};

/// The rooms of all nodes, and who waits for one.
#[derive(Debug)]
pub(crate) struct BulkLimiter {
    queues: Mutex<Queues>,
    news: Notify,
}

#[derive(Debug)]
struct Queues {
    /// To be looked at: new, or in front of a node that has room now.
    ready: VecDeque<BulkCall>,
    per_node: PerNodeLimit<BulkCall>,
    /// Since when each node has said nothing definite from its rooms.
    silent_since: HashMap<Option<NodeId>, Instant>,
    topology_epoch: Option<u64>,
    closed: bool,
}

/// What wants a room.
#[derive(Debug)]
pub(crate) enum BulkCall {
    Acquire(BulkAcquireCall),
    Release(BulkReleaseCall),
}

/// One name of a list that is asked for.
pub(crate) struct BulkAcquireCall {
    pub(crate) key: Arc<LockKey>,
    pub(crate) place: usize,
    pub(crate) list: Arc<List>,
}

/// What the names of a list have in common.
pub(crate) struct List {
    pub(crate) terms: Terms,
    /// What all names count as; `None`: each as the rules say.
    pub(crate) class: Option<ClassId>,
    pub(crate) asked: ExplicitTerms,
    /// Counted for each name from when it is queued.
    pub(crate) wait: Option<Duration>,
    /// The caller of its first name; the others follow.
    pub(crate) first: CallerId,
    pub(crate) answers_to: ListSender,
}

/// One lease of many that has ended and is to be released.
pub(crate) struct BulkReleaseCall {
    pub(crate) under_way: ReleaseInProgress,
    pub(crate) lease: Arc<LeaseCore>,
    pub(crate) answer_to: oneshot::Sender<Result<(), ReleaseError>>,
}

/// A room that is occupied. Dropping it leaves it.
pub(crate) struct BulkPermit {
    inner: Arc<Inner>,
    node: Option<NodeId>,
    last_error: Option<Box<TransportError>>,
}

impl BulkLimiter {
    /// So many on each node.
    pub(crate) fn new(most: usize) -> Self {
        let queues = Queues {
            ready: VecDeque::new(),
            per_node: PerNodeLimit::new(most),
            silent_since: HashMap::new(),
            topology_epoch: None,
            closed: false,
        };
        Self { queues: Mutex::new(queues), news: Notify::new() }
    }

    /// Takes them in, in this order; after the end of the engine, nobody.
    pub(crate) fn add(&self, calls: impl IntoIterator<Item = BulkCall>) {
        let mut calls: VecDeque<BulkCall> = calls.into_iter().collect();
        let mut queues = self.lock();
        if !queues.closed {
            queues.ready.append(&mut calls);
        }
        drop(queues);
        calls.into_iter().for_each(BulkCall::reject);
        self.news.notify_one();
    }

    /// Acquires that have not begun never will; their callers are told.
    pub(crate) fn reject(&self) {
        let mut queues = self.lock();
        let (releases, acquires): (Vec<_>, Vec<_>) =
            queues.take_all().into_iter().partition(|call| matches!(call, BulkCall::Release(_)));
        queues.ready.extend(releases);
        drop(queues);
        acquires.into_iter().for_each(BulkCall::reject);
        self.news.notify_one();
    }

    fn close(&self) {
        let mut queues = self.lock();
        queues.closed = true;
        let rest = queues.take_all();
        drop(queues);
        rest.into_iter().for_each(BulkCall::reject);
    }

    fn take_next(&self, inner: &Arc<Inner>) -> Option<(BulkCall, BulkPermit)> {
        let (topology, now) = (inner.calls.topology(), inner.clock.now());
        let mut queues = self.lock();
        queues.handle_topology(topology.as_ref().map(|topology| topology.epoch()));
        while let Some(call) = queues.ready.pop_front() {
            let node = topology.as_ref().and_then(|topology| topology.serving(call.slot()));
            let node = node.map(|node| node.id);
            if let Some(call) = queues.enter(node, call, now) {
                return Some((call, BulkPermit { inner: inner.clone(), node, last_error: None }));
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    // Who waits in front of a node may find room at another one.
    fn handle_topology(&mut self, epoch: Option<u64>) {
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            let waiting = self.per_node.take_waiting();
            self.ready.extend(waiting);
        }
    }

    fn enter(&mut self, node: Option<NodeId>, call: BulkCall, now: Instant) -> Option<BulkCall> {
        self.silent_since.entry(node).or_insert(now);
        self.per_node.enter(node, call)
    }

    fn leave(&mut self, node: Option<NodeId>) {
        match self.per_node.leave(node) {
            Some(next) => self.ready.push_front(next),
            None if self.per_node.is_empty(node) => drop(self.silent_since.remove(&node)),
            None => {}
        }
    }

    // Who waits for a node that has been silent for so long.
    fn take_unserved(&mut self, node: Option<NodeId>, now: Instant, patience: Duration) -> Vec<BulkCall> {
        let silent = self.silent_since.get(&node).is_some_and(|since| now - *since >= patience);
        if silent { self.per_node.take_waiting_at(node) } else { Vec::new() }
    }

    fn take_all(&mut self) -> VecDeque<BulkCall> {
        let waiting = self.per_node.take_waiting();
        let mut all = std::mem::take(&mut self.ready);
        all.extend(waiting);
        all
    }
}

impl BulkCall {
    fn slot(&self) -> Slot {
        match self {
            Self::Acquire(call) => call.key.slot(),
            Self::Release(call) => call.lease.key.slot(),
        }
    }

    fn begin(self, inner: &Arc<Inner>, permit: BulkPermit) {
        match self {
            Self::Acquire(call) => call.begin(inner, permit),
            Self::Release(call) => call.begin(inner, permit),
        }
    }

    // A seat or a release that is dropped tells whoever waits for it.
    fn reject(self) {
        match self {
            Self::Acquire(call) => drop(call.reply_to(Instant::default())),
            Self::Release(call) => drop(call),
        }
    }

    fn give_up(self, inner: &Arc<Inner>, last_error: TransportError) {
        match self {
            Self::Acquire(call) => {
                let after = inner.config.unavailable_after();
                call.reply_to(inner.clock.now())
                    .tell(Err(AcquireError::Unavailable { after, last_error: Some(last_error) }));
            }
            Self::Release(BulkReleaseCall { under_way, lease, answer_to }) => {
                let _ = answer_to.send(send::give_up(under_way, &lease, last_error));
                inner.table.with(&lease.key, |slot| slot.poke());
            }
        }
    }
}

impl BulkAcquireCall {
    fn reply_to(&self, joined: Instant) -> BulkReplyTo {
        BulkReplyTo::new(self.place, joined, self.list.answers_to.clone())
    }

    // Its ask goes out in a task of its own, which keeps the room.
    fn begin(self, inner: &Arc<Inner>, permit: BulkPermit) {
        self.queue_up(inner, false, Some(permit));
    }

    /// Queues it. `ahead`: at the head, because a grant came too late for it.
    pub(crate) fn queue_up(self, inner: &Arc<Inner>, ahead: bool, permit: Option<BulkPermit>) {
        let now = inner.clock.now();
        let mut reply_to = Some(ReplyTo::InList(self.reply_to(now)));
        let id = self.list.caller(self.place);
        let call = self.call(inner, now);
        let queued = enqueue::queue_up(inner, &call, (id, &mut reply_to), ahead, permit);
        if let (Err(error), Some(ReplyTo::InList(place))) = (queued, reply_to) {
            place.tell(Err(error));
        }
    }

    fn call(self, inner: &Inner, now: Instant) -> Call {
        let List { terms, asked, wait, .. } = *self.list;
        let terms = Terms { class: self.list.class_of(inner, &self.key), ..terms };
        let patience = Patience::Wait(wait.map(|time| now + time));
        Call { key: self.key, terms, asked, patience, scope: None, joined: now }
    }
}

impl List {
    /// What this name of it counts as.
    pub(crate) fn class_of(&self, inner: &Inner, key: &LockKey) -> ClassId {
        self.class.unwrap_or_else(|| inner.events.classes.by_rule(key.name()))
    }

    /// The caller of the name at this place.
    pub(crate) fn caller(&self, place: usize) -> CallerId {
        CallerId(self.first.0 + place as u64)
    }
}

impl BulkReleaseCall {
    fn begin(self, inner: &Arc<Inner>, permit: BulkPermit) {
        let Self { under_way, lease, answer_to } = self;
        let key = lease.key.clone();
        inner.spawn(async move {
            let result = send::send(under_way, &lease).await;
            let last_error = match &result {
                Err(ReleaseError::Unknown { last_error, .. }) => last_error.clone().map(Box::new),
                Ok(()) | Err(ReleaseError::AlreadyLost(_) | ReleaseError::ReleasedOrLost) => None,
            };
            drop(permit.after(last_error));
            let _ = answer_to.send(result);
        });
        // The next caller is asked for behind the release, on the same connection.
        inner.table.with(&key, |slot| slot.poke());
    }
}

impl BulkPermit {
    /// What a send has come to: with a definite answer the room is free.
    pub(crate) fn after(mut self, last_error: Option<Box<TransportError>>) -> Option<Self> {
        self.last_error = last_error;
        Some(self).filter(Self::is_troubled)
    }

    /// Whether the last send was not answered.
    pub(crate) fn is_troubled(&self) -> bool {
        self.last_error.is_some()
    }
}

impl Drop for BulkPermit {
    fn drop(&mut self) {
        let (inner, node, now) = (&self.inner, self.node, self.inner.clock.now());
        let mut queues = inner.bulk_limiter.lock();
        let hopeless = match &self.last_error {
            Some(_) => queues.take_unserved(node, now, inner.config.unavailable_after()),
            None => {
                queues.silent_since.insert(node, now);
                Vec::new()
            }
        };
        queues.leave(node);
        drop(queues);
        inner.bulk_limiter.news.notify_one();
        if let Some(last_error) = self.last_error.take() {
            hopeless.into_iter().for_each(|call| call.give_up(inner, (*last_error).clone()));
        }
    }
}

/// Serves the rooms until the engine has ended. One task, on the calls thread.
pub(crate) async fn run(inner: Arc<Inner>) {
    let _closing = CloseOnDrop(inner.clone());
    supervisor::run(inner, "bulk calls", serve).await;
}

async fn serve(inner: Arc<Inner>) {
    let mut begun = 0_usize;
    loop {
        while let Some((call, permit)) = inner.bulk_limiter.take_next(&inner) {
            call.begin(&inner, permit);
            begun += 1;
            if begun % BREATH == 0 {
                tokio::task::yield_now().await;
            }
        }
        tokio::select! {
            () = inner.bulk_limiter.news.notified() => {}
            () = inner.calls.topology_changed() => {}
        }
    }
}

struct CloseOnDrop(Arc<Inner>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.bulk_limiter.close();
    }
}

impl fmt::Debug for BulkAcquireCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkAcquireCall({:?})", self.key)
    }
}

impl fmt::Debug for BulkReleaseCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkReleaseCall({:?})", self.lease.key)
    }
}

/// So many are begun in one go; then the thread's other tasks have their turn.
const BREATH: usize = 64;
