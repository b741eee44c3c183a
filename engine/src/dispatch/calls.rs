//! Sends acquires and releases of exclusive locks: each alone while their node has little to do, many in one command
//! otherwise (group commit); and all other calls, as many as the node can work on. [`call_queue`](super::call_queue) decides.
//!
//! The time of a call counts from the moment when it is sent. A call that ends unsent leaves nothing to close.

use std::{
    panic::resume_unwind,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    call_queue::{Ready, Sent, Timed},
    dispatcher::{Dispatcher, State},
    group, in_turn,
    unanswered::Unanswered,
    unsent_call::UnsentCall,
};
use crate::{
    clock::Instant,
    core::Core,
    metrics::EngineEvent,
    routing::topology::NodeId,
    transport::{AnswerTo, Call, ErrorKind, Lane, Outcome, TransportError},
};

impl Dispatcher {
    /// Counts a call that is about to begin. Hold the result until the call is answered.
    #[inline]
    pub(crate) fn count(self: &Arc<Self>) -> Begun {
        let before = self.begun.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Begun { dispatcher: self.clone(), number: before / BEGUN, beside: before % BEGUN }
    }

    /// Makes one call that was ready at `ready`, and waits for its outcome. Returns also for how long the call has waited
    /// unsent while its node answered others.
    ///
    /// # Cancel safety
    /// A call that was begun goes on if the future is dropped.
    pub(crate) async fn call(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        call: Call,
        times: CallTimes,
        begun: &Begun,
    ) -> (Outcome, Duration) {
        if self.goes_alone(begun) {
            return (lane.call_one(call).await, Duration::ZERO);
        }
        let (sender, receiver) = oneshot::channel();
        let answer_to = AnswerTo::of_queued(move |outcome, waited| drop(sender.send((outcome, waited))));
        self.put_call(core, lane, call, times, answer_to);
        match receiver.await {
            Ok(answered) => answered,
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
        times: CallTimes,
        goes_alone: bool,
        answer_to: AnswerTo,
    ) {
        match goes_alone {
            true => begin_alone(core, lane, call, answer_to),
            false => self.put_call(core, lane, call, times, answer_to),
        }
    }

    /// Whether a call goes alone, whatever the queue of its node.
    pub(crate) fn goes_alone(&self, begun: &Begun) -> bool {
        begun.beside < FEW && !self.holds_calls_back()
    }

    /// Takes in the round trip of a call that was a [sample](Begun::is_sample).
    pub(crate) fn note_round_trip(&self, node: NodeId, took: Duration, now: Instant) {
        self.state().outboxes.note_round_trip(node, took, now);
    }

    fn put_call(
        self: &Arc<Self>,
        core: &Arc<Core>,
        lane: &Arc<dyn Lane>,
        call: Call,
        CallTimes { ready, leaves }: CallTimes,
        answer_to: AnswerTo,
    ) {
        let put = self.state().put_call(core, UnsentCall::new(call, ready, leaves, answer_to));
        match put {
            Put::Waits(node) => {
                self.send_ready(core, lane, node);
                self.watch_over_waiting(core);
            }
            Put::Closed(unsent) => drop(unsent),
            Put::NoQueue(unsent) => begin_unsent(core, lane, unsent),
        }
    }

    /// Sends what may be sent now to this node.
    pub(super) fn send_ready(self: &Arc<Self>, core: &Arc<Core>, lane: &Arc<dyn Lane>, node: NodeId) {
        let (dispatcher, core, lane) = (self.clone(), core.clone(), lane.clone());
        in_turn::run(move || {
            while let Some((ready, sent)) = dispatcher.take_ready(&core, node) {
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
        calls.into_iter().for_each(|unsent| begin_unsent(core, &lane, unsent));
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
        outbox.handle_answer(core.clock.now());
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
            Ready::Alone(unsent) => {
                let (call, answer_to) = unsent.into_parts();
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

    fn take_ready(&self, core: &Core, node: NodeId) -> Option<(Ready<UnsentCall>, Sent)> {
        let now = core.clock.now();
        let mut state = self.state();
        state.outboxes.get(Some(node))?.calls.take_ready(self.group_commit_max, now)
    }

    /// Starts the task that looks after the calls that wait, or wakes it if one of them is due earlier than the task knows.
    fn watch_over_waiting(self: &Arc<Self>, core: &Arc<Core>) {
        let mut state = self.state();
        match (state.sweeps_at, state.outboxes.gathers_until()) {
            (Some(sweeps_at), Some(until)) if until < sweeps_at => self.earlier.notify_one(),
            (None, until) if !state.outboxes.is_without_calls() => {
                state.sweeps_at = until.or(Some(core.clock.now()));
                drop(state);
                core.spawn(self.clone().sweep(core.clone()));
            }
            _ => {}
        }
    }

    // Sends calls that have waited for others for long enough, and ends those that end unsent.
    async fn sweep(self: Arc<Self>, core: Arc<Core>) {
        let mut ended = core.clock.now();
        while let Some(next) = self.next_sweep(core.clock.now()) {
            tokio::select! {
                () = core.clock.sleep_until(next) => {}
                () = self.earlier.notified() => continue,
            }
            let now = core.clock.now();
            if now >= ended + SWEEP_PAUSE {
                ended = now;
                self.end_overdue(now).await;
            }
            let Some(lane) = core.calls.lane() else { continue };
            let nodes = self.state().outboxes.nodes_that_gathered(now);
            nodes.into_iter().for_each(|node| self.send_ready(&core, &lane, node));
        }
    }

    // `None`: nothing waits, and the task ends.
    fn next_sweep(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        let waits = !state.outboxes.is_without_calls();
        let gathered = state.outboxes.gathers_until();
        state.sweeps_at = waits.then(|| gathered.map_or(now + SWEEP_PAUSE, |at| at.min(now + SWEEP_PAUSE)));
        state.sweeps_at
    }

    async fn end_overdue(&self, now: Instant) {
        let overdue = self.state().outboxes.take_overdue(now);
        for (place, (node, mut unsent, since)) in overdue.into_iter().enumerate() {
            unsent.start(since);
            unsent.into_parts().1.answer(not_sent(node));
            if place % ANSWERED_IN_A_ROW == ANSWERED_IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The times of a call that may wait in an outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimes {
    /// From when its `execute_by` counts.
    pub(crate) ready: Instant,
    /// When its caller leaves, also if the call was not sent until then. `None`: the caller stays while the node answers.
    pub(crate) leaves: Option<Instant>,
}

/// What became of a call that was put into the outbox of its node.
enum Put {
    Waits(NodeId),
    /// Nothing is sent any more.
    Closed(UnsentCall),
    /// No node serves its slot.
    NoQueue(UnsentCall),
}

impl State {
    fn put_call(&mut self, core: &Core, call: UnsentCall) -> Put {
        if self.is_closed {
            return Put::Closed(call);
        }
        match self.outboxes.put_call(core.calls.topology().as_deref(), call, core.clock.now()) {
            Ok(node) => Put::Waits(node),
            Err(call) => Put::NoQueue(call),
        }
    }
}

fn begin_unsent(core: &Core, lane: &Arc<dyn Lane>, unsent: UnsentCall) {
    let (call, answer_to) = unsent.into_parts();
    begin_alone(core, lane, call, AnswerTo::new(move |outcome| answer_to.answer(outcome)));
}

/// Begins a call alone: without a task if the transport can.
fn begin_alone(core: &Core, lane: &Arc<dyn Lane>, call: Call, answer_to: AnswerTo) {
    if let Some((call, answer_to)) = lane.begin(call, answer_to) {
        let lane = lane.clone();
        core.spawn(async move { answer_to.answer(lane.call_one(call).await) });
    }
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
const SWEEP_PAUSE: Duration = Duration::from_millis(20);
/// How many callers are answered in a row. Then the other tasks of the calls thread run.
const ANSWERED_IN_A_ROW: usize = 64;
