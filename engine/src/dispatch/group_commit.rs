//! Sends acquires and releases of exclusive locks: each alone while their node has little to do, many in one command
//! otherwise (group commit). [`node_queue`](super::node_queue) decides.
//!
//! A call that is not sent by its `execute_by` ends without effect: it leaves nothing to close.

use std::{
    collections::HashMap,
    panic::resume_unwind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::node_queue::{NodeQueue, Ready, Window};
use crate::{
    core::Core,
    guard,
    metrics::EngineEvent,
    routing::topology::{Batching, NodeId},
    transport::{BoxFuture, Call, Capabilities, ErrorKind, HoldKind, Lane, Op, Outcome, TransportError},
};

/// Sends the calls of one engine.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    /// At most so many calls go together; 1: each goes alone.
    most: usize,
    /// The low half: how many calls are unanswered or wait. The high half: how many have begun.
    begun: AtomicU64,
    round_trips: RoundTrips,
    nodes: Mutex<HashMap<NodeId, NodeQueue<Waiting>>>,
}

/// A call in a queue.
#[derive(Debug)]
struct Waiting {
    call: Call,
    place: Arc<Place>,
    go: oneshot::Sender<Go>,
}

/// Whether a call still waits: it is sent, or its caller leaves, whichever comes first.
#[derive(Debug, Default)]
struct Place(AtomicU8);

/// What a waiting call is told.
#[derive(Debug)]
enum Go {
    /// It is sent alone, by its own task.
    Alone(Box<Call>, Unanswered),
    Answered(Outcome),
}

impl GroupCommit {
    /// `most`: of the settings. A transport without group commit gets each call alone.
    pub(crate) fn new(most: usize, transport: Capabilities) -> Self {
        let most = if transport.group_commit { most } else { 1 };
        Self { most, begun: AtomicU64::new(0), round_trips: RoundTrips::default(), nodes: Mutex::default() }
    }

    /// Makes one call. Hold [`Begun`] until it is answered.
    ///
    /// Dropping the future of a call that is not sent leaves nothing behind; dropping that of a sent one is as dropping
    /// [`Lane::call_one`].
    #[inline]
    pub(crate) fn call<'a>(
        self: &'a Arc<Self>,
        core: &'a Arc<Core>,
        lane: &'a Arc<dyn Lane>,
        call: Call,
    ) -> (Option<Begun<'a>>, BoxFuture<'a, Outcome>) {
        if self.most <= 1 {
            return (None, lane.call_one(call));
        }
        let begun = Begun::count(&self.begun);
        let goes_alone = begun.beside < FEW || !is_groupable(&call);
        let answer = if goes_alone {
            lane.call_one(call)
        } else {
            Box::pin(self.call_beside_others(core, lane, call))
        };
        (Some(begun), answer)
    }

    /// Takes in the round trip of a call that was a [sample](Begun::is_sample).
    pub(crate) fn note_round_trip(&self, took: Duration) {
        self.round_trips.note(took);
    }

    async fn call_beside_others(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        call: Call,
    ) -> Outcome {
        let Some(node) = grouping_node(core, &call) else { return lane.call_one(call).await };
        let execute_by = call.execute_by;
        let (place, mut told) = self.put(core, node, call);
        let leaves = async {
            core.clock.sleep_until(execute_by).await;
            place.leave()
        };
        let go = tokio::select! {
            biased;
            go = &mut told => go,
            has_left = leaves => if has_left { return not_sent(node) } else { told.await },
        };
        match go {
            Ok(Go::Alone(call, _unanswered)) => lane.call_one(*call).await,
            Ok(Go::Answered(outcome)) => outcome,
            // The transport has panicked, or has answered fewer calls than it was given: as if it panicked on this one.
            Err(_unanswered) => resume_unwind(Box::new("the transport has not answered a call of a group")),
        }
    }

    fn put(
        self: &Arc<Self>,
        core: &Arc<Core>,
        node: NodeId,
        call: Call,
    ) -> (LeaveOnDrop, oneshot::Receiver<Go>) {
        let (go, told) = oneshot::channel();
        let place = Arc::<Place>::default();
        let waiting = Waiting { call, place: place.clone(), go };
        self.nodes().entry(node).or_insert_with(NodeQueue::new).put(waiting);
        self.send_ready(core, node);
        (LeaveOnDrop(place), told)
    }

    /// Sends what may be sent now.
    fn send_ready(self: &Arc<Self>, core: &Arc<Core>, node: NodeId) {
        while let Some(ready) = self.take_ready(node) {
            match ready {
                Ready::Alone(Waiting { call, go, .. }) => {
                    let _ = go.send(Go::Alone(Box::new(call), self.unanswered(core, node, None)));
                }
                Ready::Together(group) => {
                    let unanswered = self.unanswered(core, node, Some(group.len()));
                    core.events.record_engine(EngineEvent::GroupCommit { calls: group.len() });
                    core.spawn(send_group(unanswered, group));
                }
            }
        }
    }

    fn unanswered(self: &Arc<Self>, core: &Arc<Core>, node: NodeId, group: Option<usize>) -> Unanswered {
        Unanswered { group_commit: self.clone(), core: core.clone(), node, group }
    }

    fn take_ready(&self, node: NodeId) -> Option<Ready<Waiting>> {
        let window = Window::of_round_trip(self.round_trips.smallest());
        let mut nodes = self.nodes();
        let ready = nodes.get_mut(&node)?.take_ready(window, self.most, |waiting| waiting.place.take());
        if ready.is_none() && nodes.get(&node).is_some_and(NodeQueue::is_idle) {
            nodes.remove(&node);
        }
        ready
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<NodeId, NodeQueue<Waiting>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends calls together, and tells each its outcome. What waits behind them is sent first.
async fn send_group(unanswered: Unanswered, group: Vec<Waiting>) {
    let size = group.len();
    let (mut told, mut calls) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for (ticket, Waiting { call, go, .. }) in group.into_iter().enumerate() {
        calls.push(call.with_ticket(ticket as u64));
        told.push(Some(go));
    }
    let answered = match unanswered.core.calls.lane() {
        // A panic is passed on to each caller, which then has no answer.
        Some(lane) => guard::run(lane.call(unanswered.node, calls)).await.unwrap_or_default(),
        None => Vec::new(),
    };
    drop(unanswered);
    for call in answered {
        let go = usize::try_from(call.ticket).ok().and_then(|ticket| told.get_mut(ticket)?.take());
        if let Some(go) = go {
            let _ = go.send(Go::Answered(call.outcome));
        }
    }
}

/// The node that serves the call's key, if it takes calls of many slots together.
fn grouping_node(core: &Core, call: &Call) -> Option<NodeId> {
    let topology = core.calls.topology()?;
    let node = topology.serving(call.key.slot())?;
    (node.batching == Batching::AcrossSlots).then_some(node.id)
}

fn is_groupable(call: &Call) -> bool {
    let is_exclusive = matches!(call.kind, HoldKind::Exclusive | HoldKind::Spin);
    is_exclusive && matches!(call.op, Op::Acquire { .. } | Op::Release)
}

fn not_sent(node: NodeId) -> Outcome {
    let detail = "not sent: the node has not answered the calls before this one in time";
    Outcome::Failed(TransportError::without_effect(ErrorKind::NotReady, Some(node), detail))
}

impl Place {
    /// The call is sent. `false`: its caller has left.
    fn take(&self) -> bool {
        self.0.compare_exchange(WAITS, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The caller leaves. `false`: the call is sent.
    fn leave(&self) -> bool {
        self.0.compare_exchange(WAITS, LEFT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

const WAITS: u8 = 0;
const SENT: u8 = 1;
const LEFT: u8 = 2;

/// The place of a caller whose future may be dropped.
struct LeaveOnDrop(Arc<Place>);

impl LeaveOnDrop {
    fn leave(&self) -> bool {
        self.0.leave()
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A command that is not answered. Dropping it counts it as answered, and sends what may follow.
struct Unanswered {
    group_commit: Arc<GroupCommit>,
    core: Arc<Core>,
    node: NodeId,
    /// How many calls it has; `None`: one call alone.
    group: Option<usize>,
}

impl std::fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unanswered").field("node", &self.node).field("group", &self.group).finish()
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(queue) = self.group_commit.nodes().get_mut(&self.node) {
            match self.group {
                Some(calls) => queue.handle_group(calls),
                None => queue.handle_alone(),
            }
        }
        self.group_commit.send_ready(&self.core, self.node);
    }
}

/// A call that has begun. Dropping it ends it.
pub(crate) struct Begun<'a> {
    begun: &'a AtomicU64,
    number: u64,
    /// How many others are unanswered or wait.
    beside: u64,
}

impl<'a> Begun<'a> {
    #[inline]
    fn count(begun: &'a AtomicU64) -> Self {
        let before = begun.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Self { begun, number: before / BEGUN, beside: before % BEGUN }
    }

    /// Whether the call's round trip is to be taken in: nothing was unanswered beside it. Only some calls are samples, because
    /// reading the clock costs more than all the rest of this.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        self.beside == 0 && self.number % SAMPLE_EVERY == 0
    }
}

impl Drop for Begun<'_> {
    #[inline]
    fn drop(&mut self) {
        self.begun.fetch_sub(1, Ordering::Relaxed);
    }
}

const BEGUN: u64 = 1 << 32;
/// With fewer calls than this, no queue is looked at.
const FEW: u64 = 8;
/// Odd: acquires and releases take turns.
const SAMPLE_EVERY: u64 = 31;

/// The round trips of calls beside which nothing else was unanswered: without a queue at the node. The smallest of the last
/// four counts.
#[derive(Debug, Default)]
struct RoundTrips {
    last: [AtomicU64; 4],
    next: AtomicU64,
}

impl RoundTrips {
    fn note(&self, took: Duration) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) as usize % self.last.len();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.last[place].store(nanos, Ordering::Relaxed);
    }

    /// Zero before the fourth sample.
    fn smallest(&self) -> Duration {
        let nanos = self.last.iter().map(|last| last.load(Ordering::Relaxed)).min();
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}
