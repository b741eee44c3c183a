//! Sends acquires and releases of exclusive locks: each alone while their node has little to do, many in one command
//! otherwise (group commit). [`node_queue`](super::node_queue) decides.
//!
//! A call that is not sent by its `execute_by` ends without effect: it leaves nothing to close.

use std::{
    collections::HashMap,
    panic::resume_unwind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    in_turn,
    node_queue::{NodeQueue, Ready, Window},
};
use crate::{
    clock::Instant,
    core::Core,
    guard,
    metrics::EngineEvent,
    routing::topology::{Batching, NodeId},
    transport::{AnswerTo, Call, Capabilities, ErrorKind, HoldKind, Lane, Op, Outcome, TransportError},
};

/// Sends the calls of one engine.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    /// At most so many calls go together; 1: each goes alone.
    most: usize,
    /// The low half: how many calls are unanswered or wait. The high half: how many have begun.
    begun: AtomicU64,
    round_trips: RoundTrips,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    nodes: HashMap<NodeId, NodeQueue<Waiting>>,
    /// A task ends the calls that wait for too long.
    has_sweeper: bool,
    /// Nothing is sent any more.
    is_closed: bool,
}

/// A call in a queue.
#[derive(Debug)]
struct Waiting {
    call: Call,
    answer_to: AnswerTo,
}

impl GroupCommit {
    /// `most`: of the settings. A transport without group commit gets each call alone.
    pub(crate) fn new(most: usize, transport: Capabilities) -> Self {
        let most = if transport.group_commit { most } else { 1 };
        Self { most, begun: AtomicU64::new(0), round_trips: RoundTrips::default(), queues: Mutex::default() }
    }

    /// Counts a call that is about to begin. Hold the result until the call is answered.
    #[inline]
    pub(crate) fn count(self: &Arc<Self>) -> Begun {
        let before = self.begun.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Begun { group_commit: self.clone(), number: before / BEGUN, beside: before % BEGUN }
    }

    /// Makes one call, and waits for its outcome.
    ///
    /// # Cancel safety
    /// A call that was begun goes on if the future is dropped.
    pub(crate) async fn call(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        call: Call,
        begun: &Begun,
    ) -> Outcome {
        if self.goes_alone(&call, begun) {
            return lane.call_one(call).await;
        }
        let (sender, receiver) = oneshot::channel();
        self.put(core, lane, call, AnswerTo::new(move |outcome| drop(sender.send(outcome))));
        match receiver.await {
            Ok(outcome) => outcome,
            // The transport has panicked, or has answered fewer calls than it was given: as if it panicked on this one.
            Err(_unanswered) => resume_unwind(Box::new("the transport has not answered a call of a group")),
        }
    }

    /// Begins one call. Its outcome goes to `answer_to`, perhaps before this returns.
    pub(crate) fn begin(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        call: Call,
        goes_alone: bool,
        answer_to: AnswerTo,
    ) {
        match goes_alone {
            true => begin_alone(core, lane, call, answer_to),
            false => self.put(core, lane, call, answer_to),
        }
    }

    /// Whether the call goes alone, whatever the queue of its node.
    pub(crate) fn goes_alone(&self, call: &Call, begun: &Begun) -> bool {
        self.most <= 1 || begun.beside < FEW || !is_groupable(call)
    }

    /// Takes in the round trip of a call that was a [sample](Begun::is_sample).
    pub(crate) fn note_round_trip(&self, took: Duration) {
        self.round_trips.note(took);
    }

    fn put(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, call: Call, answer_to: AnswerTo) {
        let Some(node) = grouping_node(core, &call) else { return begin_alone(core, lane, call, answer_to) };
        let refused = self.queues().put(node, Waiting { call, answer_to });
        if refused.is_some() {
            return; // dropped here, without the lock: its drop runs the code of others
        }
        self.send_ready(core, lane, node);
        self.watch_over_waiting(core);
    }

    /// The engine sends nothing any more: the calls that wait, and all that follow, have no answer.
    pub(crate) fn close(&self) {
        let mut queues = self.queues();
        queues.is_closed = true;
        let waiting = queues.take_overdue(Instant::from_nanos(u64::MAX));
        drop(queues); // before what waits: its drop runs the code of others
        drop(waiting);
    }

    /// Sends what may be sent now.
    fn send_ready(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, node: NodeId) {
        let (group_commit, core, lane) = (self.clone(), core.clone(), lane.clone());
        in_turn::run(move || {
            while let Some(ready) = group_commit.take_ready(node) {
                group_commit.send(&core, &lane, node, ready);
            }
        });
    }

    fn send(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, node: NodeId, ready: Ready<Waiting>) {
        let unanswered = |group| Unanswered {
            group_commit: self.clone(),
            core: core.clone(),
            lane: lane.clone(),
            node,
            group,
        };
        match ready {
            Ready::Alone(Waiting { call, answer_to }) => {
                let unanswered = unanswered(None);
                let answer_to = AnswerTo::new(move |outcome| {
                    answer_to.answer(outcome);
                    drop(unanswered);
                });
                begin_alone(core, lane, call, answer_to);
            }
            Ready::Together(group) => {
                let unanswered = unanswered(Some(group.len()));
                core.events.record_engine(EngineEvent::GroupCommit { calls: group.len() });
                core.spawn(send_group(unanswered, group));
            }
        }
    }

    fn take_ready(&self, node: NodeId) -> Option<Ready<Waiting>> {
        let window = Window::of_round_trip(self.round_trips.smallest());
        let mut queues = self.queues();
        let ready = queues.nodes.get_mut(&node)?.take_ready(window, self.most);
        if ready.is_none() && queues.nodes.get(&node).is_some_and(NodeQueue::is_idle) {
            queues.nodes.remove(&node);
        }
        ready
    }

    /// Starts the task that ends calls whose time is over, if calls wait and the task does not run.
    fn watch_over_waiting(self: &Arc<Self>, core: &Arc<Core>) {
        let mut queues = self.queues();
        if !queues.has_sweeper && queues.next_overdue().is_some() {
            queues.has_sweeper = true;
            drop(queues);
            core.spawn(self.clone().sweep(core.clone()));
        }
    }

    async fn sweep(self: Arc<Self>, core: Arc<Core>) {
        while let Some(next) = self.next_overdue() {
            core.clock.sleep_until(next.max(core.clock.now() + SWEEP_PAUSE)).await;
            let overdue = self.queues().take_overdue(core.clock.now());
            for (node, Waiting { answer_to, .. }) in overdue {
                answer_to.answer(not_sent(node));
            }
        }
    }

    // `None`: nothing waits, and the task ends.
    fn next_overdue(&self) -> Option<Instant> {
        let mut queues = self.queues();
        let next = queues.next_overdue();
        queues.has_sweeper = next.is_some();
        next
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    // Returns the call if nothing is sent any more.
    fn put(&mut self, node: NodeId, waiting: Waiting) -> Option<Waiting> {
        if self.is_closed {
            return Some(waiting);
        }
        self.nodes.entry(node).or_insert_with(NodeQueue::new).put(waiting);
        None
    }

    fn next_overdue(&self) -> Option<Instant> {
        self.nodes.values().flat_map(NodeQueue::waiting).map(|waiting| waiting.call.execute_by).min()
    }

    fn take_overdue(&mut self, now: Instant) -> Vec<(NodeId, Waiting)> {
        let is_overdue = |waiting: &Waiting| waiting.call.execute_by <= now;
        let of_node = |(node, queue): (&NodeId, &mut NodeQueue<Waiting>)| {
            let node = *node;
            queue.take_waiting(is_overdue).into_iter().map(move |waiting| (node, waiting)).collect::<Vec<_>>()
        };
        self.nodes.iter_mut().flat_map(of_node).collect()
    }
}

/// Begins a call alone: without a task if the transport can.
fn begin_alone(core: &Core, lane: &Arc<dyn Lane>, call: Call, answer_to: AnswerTo) {
    if let Some((call, answer_to)) = lane.begin(call, answer_to) {
        let lane = lane.clone();
        core.spawn(async move { answer_to.answer(lane.call_one(call).await) });
    }
}

/// Sends calls together, and tells each its outcome. What waits behind them is sent first.
async fn send_group(unanswered: Unanswered, group: Vec<Waiting>) {
    let size = group.len();
    let (mut told, mut calls) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for (ticket, Waiting { call, answer_to }) in group.into_iter().enumerate() {
        calls.push(call.with_ticket(ticket as u64));
        told.push(Some(answer_to));
    }
    // A panic is passed on to each caller, which then has no answer.
    let answered = guard::run(unanswered.lane.call(unanswered.node, calls)).await.unwrap_or_default();
    drop(unanswered);
    for call in answered {
        let answer_to = usize::try_from(call.ticket).ok().and_then(|ticket| told.get_mut(ticket)?.take());
        if let Some(answer_to) = answer_to {
            answer_to.answer(call.outcome);
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

/// A command that is not answered. Dropping it counts it as answered, and sends what may follow.
struct Unanswered {
    group_commit: Arc<GroupCommit>,
    core: Arc<Core>,
    lane: Arc<dyn Lane>,
    node: NodeId,
    /// How many calls it has; `None`: one call alone.
    group: Option<usize>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(queue) = self.group_commit.queues().nodes.get_mut(&self.node) {
            match self.group {
                Some(calls) => queue.handle_group(calls),
                None => queue.handle_alone(),
            }
        }
        self.group_commit.send_ready(&self.core, &self.lane, self.node);
    }
}

/// A call that has begun. Dropping it ends it.
pub(crate) struct Begun {
    group_commit: Arc<GroupCommit>,
    number: u64,
    /// How many others are unanswered or wait.
    beside: u64,
}

impl Begun {
    /// Whether the call's round trip is to be taken in: nothing was unanswered beside it. Only some calls are samples, because
    /// reading the clock costs more than all the rest of this.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        self.beside == 0 && self.number % SAMPLE_EVERY == 0
    }
}

impl Drop for Begun {
    #[inline]
    fn drop(&mut self) {
        self.group_commit.begun.fetch_sub(1, Ordering::Relaxed);
    }
}

const BEGUN: u64 = 1 << 32;
/// With fewer calls than this, no queue is looked at.
const FEW: u64 = 8;
/// Odd: acquires and releases take turns.
const SAMPLE_EVERY: u64 = 31;
/// Calls whose time is over at about the same moment end together.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

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
