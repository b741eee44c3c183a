//! One channel: where it is subscribed, how far that is, and who is told of it.

use leasehold::{
    clock::Instant,
    routing::{slot::Slot, topology::NodeId},
    transport::WatchState,
};
use tokio::sync::watch;

/// Its subscription, as one lane knows it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) slot: Slot,
    pub(super) seat: Option<NodeId>,
    pub(super) phase: Phase,
    /// Only while somebody watches: a warm channel costs its name and little else.
    pub(super) state: Option<watch::Sender<WatchState>>,
    pub(super) watches: usize,
    pub(super) idle_since: Instant,
    pub(super) queued: bool,
}

/// How far its subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// To be handed out.
    Wanted,
    /// Sent.
    Asked,
    /// Confirmed.
    InForce,
}

impl Channel {
    pub(super) fn wanted(slot: Slot, seat: Option<NodeId>) -> Self {
        Self {
            slot,
            seat,
            phase: Phase::Wanted,
            state: None,
            watches: 0,
            idle_since: Instant::default(),
            queued: false,
        }
    }

    pub(super) fn receiver(&mut self) -> watch::Receiver<WatchState> {
        let state = WatchState { in_force: self.phase == Phase::InForce, ..WatchState::default() };
        self.state.get_or_insert_with(|| watch::Sender::new(state)).subscribe()
    }

    /// Its subscription is gone, and messages may have been.
    pub(super) fn unsettle(&mut self) {
        self.phase = Phase::Wanted;
        self.tell(|state| {
            state.in_force = false;
            state.gaps += 1;
        });
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut WatchState)) {
        if let Some(state) = &self.state {
            state.send_modify(change);
        }
    }
}
