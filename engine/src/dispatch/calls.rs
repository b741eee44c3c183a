//! Sends acquires and releases of exclusive locks: each alone while their node has little to do, many in one command
//! otherwise (group commit). [`call_queue`](super::call_queue) decides.
//!
//! A call that is not sent by its `execute_by` ends without effect: it leaves nothing to close.

use std::{
    panic::resume_unwind,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    call_queue::{Ready, Sent},
    dispatcher::{Dispatcher, State},
    group, in_turn,
    unanswered::Unanswered,
    unsent_call::UnsentCall,
    window::Window,
};
use crate::{
    clock::Instant,
    core::Core,
    metrics::EngineEvent,
    routing::topology::NodeId,
    transport::{AnswerTo, Call, ErrorKind, HoldKind, Lane, Op, Outcome, TransportError},
};

impl Dispatcher {
    /// Counts a call that is about to begin. Hold the result until the call is answered.
    #[inline]
    pub(crate) fn count(self: &Arc<Self>) -> Begun {
        let before = self.begun.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Begun { dispatcher: self.clone(), number: before / BEGUN, beside: before % BEGUN }
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
        self.put_call(core, lane, call, AnswerTo::new(move |outcome| drop(sender.send(outcome))));
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
            false => self.put_call(core, lane, call, answer_to),
        }
    }

    /// Whether the call goes alone, whatever the queue of its node.
    pub(crate) fn goes_alone(&self, call: &Call, begun: &Begun) -> bool {
        let looks_at_queue = begun.beside >= FEW || self.holds_calls_back();
        self.group_commit_max <= 1 || !looks_at_queue || !is_groupable(call)
    }

    /// Takes in the round trip of a call that was a [sample](Begun::is_sample).
    pub(crate) fn note_round_trip(&self, took: Duration) {
        self.round_trips.note(took);
    }

    fn put_call(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, call: Call, answer_to: AnswerTo) {
        let put = self.state().put_call(core, UnsentCall { call, answer_to });
        match put {
            Put::Waits(node) => {
                self.send_ready(core, lane, node);
                self.watch_over_waiting(core);
            }
            Put::Closed(unsent) => drop(unsent),
            Put::NoQueue(UnsentCall { call, answer_to }) => begin_alone(core, lane, call, answer_to),
        }
    }

    /// Sends what may be sent now to this node.
    pub(super) fn send_ready(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, node: NodeId) {
        let (dispatcher, core, lane) = (self.clone(), core.clone(), lane.clone());
        in_turn::run(move || {
            while let Some((ready, sent)) = dispatcher.take_ready(node) {
                dispatcher.send(&core, &lane, node, ready, sent);
            }
        });
    }

    /// Follows the slots to their nodes, and sends the calls that need not wait any more.
    pub(super) fn handle_topology(self: &Arc<Self>, core: &Arc<Core>) {
        let Some(lane) = core.calls.lane() else { return };
        let (topology, now) = (core.calls.topology(), core.clock.now());
        let mut state = self.state();
        let Some(calls) = state.outboxes.handle_topology(topology.as_deref(), now) else { return };
        self.note_silent(&state);
        drop(state);
        for UnsentCall { call, answer_to } in calls {
            begin_alone(core, &lane, call, answer_to);
        }
        for node in topology.iter().flat_map(|topology| topology.nodes()) {
            self.send_ready(core, &lane, node.id);
        }
    }

    /// The node has answered a call. What waits for that is sent.
    #[inline]
    pub(crate) fn handle_answer_of(self: &Arc<Self>, core: &Arc<Core>, node: NodeId) {
        if self.has_silent() {
            self.end_silence(core, node);
        }
    }

    #[cold]
    fn end_silence(self: &Arc<Self>, core: &Arc<Core>, node: NodeId) {
        let mut state = self.state();
        let Some(outbox) = state.outboxes.get(Some(node)).filter(|outbox| outbox.is_silent()) else { return };
        outbox.handle_answer();
        drop(state);
        self.news.notify_one();
        if let Some(lane) = core.calls.lane() {
            self.send_ready(core, &lane, node);
        }
        // Only now: a call that looks at no queue would overtake those that wait.
        self.note_silent(&self.state());
    }

    fn send(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        node: NodeId,
        ready: Ready<UnsentCall>,
        sent: Sent,
    ) {
        let mut unanswered = Unanswered::new(self, core, lane, (node, sent));
        match ready {
            Ready::Alone(UnsentCall { call, answer_to }) => {
                let answer_to = AnswerTo::new(move |outcome| {
                    unanswered.note(&outcome);
                    answer_to.answer(outcome);
                    drop(unanswered);
                });
                begin_alone(core, lane, call, answer_to);
            }
            Ready::Together(calls) => {
                core.events.record_engine(EngineEvent::GroupCommit { calls: calls.len() });
                group::begin(unanswered, calls);
            }
        }
    }

    fn take_ready(&self, node: NodeId) -> Option<(Ready<UnsentCall>, Sent)> {
        let window = Window::of_round_trip(self.round_trips.smallest());
        let mut state = self.state();
        state.outboxes.get(Some(node))?.calls.take_ready(window, self.group_commit_max)
    }

    /// Starts the task that ends calls whose time is over, if calls wait and the task does not run.
    fn watch_over_waiting(self: &Arc<Self>, core: &Arc<Core>) {
        let mut state = self.state();
        if !state.has_sweeper && state.next_overdue().is_some() {
            state.has_sweeper = true;
            drop(state);
            core.spawn(self.clone().sweep(core.clone()));
        }
    }

    async fn sweep(self: Arc<Self>, core: Arc<Core>) {
        while let Some(next) = self.next_overdue() {
            // A call that comes meanwhile may end before the others.
            let now = core.clock.now();
            core.clock.sleep_until(next.clamp(now + SWEEP_PAUSE_MIN, now + SWEEP_PAUSE_MAX)).await;
            let now = core.clock.now();
            let overdue = self.state().outboxes.take_calls(|waiting| waiting.call.execute_by <= now);
            for (place, (node, UnsentCall { answer_to, .. })) in overdue.into_iter().enumerate() {
                answer_to.answer(not_sent(node));
                if place % ANSWERED_IN_A_ROW == ANSWERED_IN_A_ROW - 1 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    // `None`: nothing waits, and the task ends.
    fn next_overdue(&self) -> Option<Instant> {
        let mut state = self.state();
        let next = state.next_overdue();
        state.has_sweeper = next.is_some();
        next
    }
}

/// What became of a call that was put into the outbox of its node.
enum Put {
    Waits(NodeId),
    /// Nothing is sent any more.
    Closed(UnsentCall),
    /// Its node takes no calls of many slots together, or no node serves its slot.
    NoQueue(UnsentCall),
}

impl State {
    fn put_call(&mut self, core: &Core, call: UnsentCall) -> Put {
        if self.is_closed {
            return Put::Closed(call);
        }
        match self.outboxes.put_call(core.calls.topology().as_deref(), call) {
            Ok(node) => Put::Waits(node),
            Err(call) => Put::NoQueue(call),
        }
    }

    fn next_overdue(&self) -> Option<Instant> {
        self.outboxes.waiting_calls().map(|waiting| waiting.call.execute_by).min()
    }
}

/// Begins a call alone: without a task if the transport can.
fn begin_alone(core: &Core, lane: &Arc<dyn Lane>, call: Call, answer_to: AnswerTo) {
    if let Some((call, answer_to)) = lane.begin(call, answer_to) {
        let lane = lane.clone();
        core.spawn(async move { answer_to.answer(lane.call_one(call).await) });
    }
}

fn is_groupable(call: &Call) -> bool {
    let is_exclusive = matches!(call.kind, HoldKind::Exclusive | HoldKind::Spin);
    is_exclusive && matches!(call.op, Op::Acquire { .. } | Op::Release)
}

fn not_sent(node: Option<NodeId>) -> Outcome {
    let detail = "not sent: the node has not answered the calls before this one in time";
    Outcome::Failed(TransportError::without_effect(ErrorKind::NotReady, node, detail))
}

/// A call that has begun. Dropping it ends it.
pub(crate) struct Begun {
    dispatcher: Arc<Dispatcher>,
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
        self.dispatcher.begun.fetch_sub(1, Ordering::Relaxed);
    }
}

const BEGUN: u64 = 1 << 32;
/// With fewer calls than this, no queue is looked at unless a node is silent.
const FEW: u64 = 8;
/// Odd: acquires and releases take turns.
const SAMPLE_EVERY: u64 = 31;
/// Calls whose time is over at about the same moment end together.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(10);
const SWEEP_PAUSE_MAX: Duration = Duration::from_millis(50);
/// How many callers are answered in a row. Then the other tasks of the calls thread run.
const ANSWERED_IN_A_ROW: usize = 64;
