//! The state of the outboxes of one engine. `calls` and `permits` have what is done with it.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::Notify;

use super::{
    outbox::{Outboxes, WORK_KINDS},
    unsent_call::UnsentCall,
    work::Work,
};
use crate::{clock::Instant, config::EngineConfig, transport::Capabilities};

/// What one engine sends to its nodes.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    /// At most this number of calls go together; 1: each goes alone.
    pub(super) group_commit_max: usize,
    /// The low half: how many calls are unanswered or wait. The high half: how many have begun.
    pub(super) begun: AtomicU64,
    pub(super) news: Notify,
    /// Calls that wait may be sent, or end unsent, earlier than the task that looks after them knows.
    pub(super) earlier: Notify,
    state: Mutex<State>,
    /// Whether a node is silent, for calls or for releases of unconfirmed owners.
    has_silent: AtomicBool,
    /// Whether calls to a node are held back, because it is silent.
    holds_calls_back: AtomicBool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) outboxes: Outboxes<UnsentCall, Box<dyn Work>>,
    /// When the task looks at the calls that wait. `None`: no task does.
    pub(super) sweeps_at: Option<Instant>,
    /// Nothing is sent any more.
    pub(super) is_closed: bool,
}

impl Dispatcher {
    /// A transport without group commit gets each call alone.
    pub(crate) fn new(config: &EngineConfig, transport: Capabilities) -> Self {
        let outboxes = Outboxes::new(config.bulk_in_flight_max);
        Self {
            group_commit_max: if transport.group_commit { config.group_commit_max } else { 1 },
            begun: AtomicU64::new(0),
            news: Notify::new(),
            earlier: Notify::new(),
            state: Mutex::new(State { outboxes, sweeps_at: None, is_closed: false }),
            has_silent: AtomicBool::new(false),
            holds_calls_back: AtomicBool::new(false),
        }
    }

    /// Whether a node is silent.
    #[inline]
    pub(super) fn has_silent(&self) -> bool {
        self.has_silent.load(Ordering::Relaxed)
    }

    /// Whether calls to a node are held back, because it is silent.
    #[inline]
    pub(crate) fn holds_calls_back(&self) -> bool {
        self.holds_calls_back.load(Ordering::Relaxed)
    }

    /// Takes note of whether a node is silent. Call it after every change of that.
    pub(super) fn note_silent(&self, state: &State) {
        self.has_silent.store(state.outboxes.has_silent(), Ordering::Relaxed);
        self.holds_calls_back.store(state.outboxes.silent_nodes() > 0, Ordering::Relaxed);
    }

    /// The calls that wait to be sent.
    pub(crate) fn unsent_calls(&self) -> usize {
        self.state().outboxes.waiting_calls().count()
    }

    /// The nodes whose calls are held back, because they are silent.
    pub(crate) fn silent_nodes(&self) -> usize {
        self.state().outboxes.silent_nodes()
    }

    /// The engine sends nothing any more: what waits, and all that follows, has no answer.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let calls = state.outboxes.take_calls();
        let work: Vec<_> = WORK_KINDS.into_iter().flat_map(|kind| state.outboxes.take_work(kind)).collect();
        drop(state); // before what waits: its drop runs the code of others
        drop(calls);
        work.into_iter().for_each(|work| work.reject());
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
