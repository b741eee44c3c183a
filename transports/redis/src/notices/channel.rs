//! One channel: the node of its subscription, the state of that subscription, and the watches to notify.

use leasehold::{
    clock::Instant,
    routing::{slot::Slot, topology::NodeId},
    transport::WatchState,
};
use tokio::sync::watch;

/// The subscription of one channel, as one lane knows it.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) slot: Slot,
    pub(super) node: Option<NodeId>,
    pub(super) phase: Phase,
    /// Present only while a watch exists. An idle channel costs little more than its name.
    pub(super) state: Option<watch::Sender<WatchState>>,
    pub(super) watches: usize,
    pub(super) idle_since: Instant,
    pub(super) queued: bool,
}

/// The state of the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not sent to the server yet.
    Wanted,
    /// Sent to the server.
    Asked,
    /// Confirmed by the server.
    InForce,
}

impl Channel {
    pub(super) fn wanted(slot: Slot, node: Option<NodeId>) -> Self {
        Self {
            slot,
            node,
            phase: Phase::Wanted,
            state: None,
            watches: 0,
            idle_since: Instant::default(),
            queued: false,
        }
    }

    pub(super) fn receiver(&mut self) -> watch::Receiver<WatchState> {
        let state = WatchState::starting(self.phase == Phase::InForce);
        self.state.get_or_insert_with(|| watch::Sender::new(state)).subscribe()
    }

    /// Resets the subscription, because it has ended and messages may have been lost.
    pub(super) fn reset(&mut self) {
        self.phase = Phase::Wanted;
        self.notify(|state| {
            state.in_force = false;
            state.gaps += 1;
        });
    }

    pub(super) fn notify(&self, change: impl FnOnce(&mut WatchState)) {
        if let Some(state) = &self.state {
            state.send_modify(change);
        }
    }
}
