//! What plays the server: the table, its clock, the watches, behind one mutex that all clones share.
//!
//! The present moment is read *under* the lock, so server time never runs backwards from one operation to the next
//! unless a test steps the clock. Watches are notified after unlocking.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    routing::topology::{Batching, ClockId, Node, NodeId, Topology},
    transport::ServerTime,
};
use tokio::sync::watch;

use crate::{
    table::{Moment, Table},
    watchers::{Watchers, count_gap},
};

/// The one node there is.
pub(crate) const NODE: NodeId = NodeId(0);

#[derive(Debug)]
pub(crate) struct Server {
    state: Mutex<State>,
    topology: watch::Sender<Arc<Topology>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) watchers: Watchers,
    pub(crate) clock: ServerClock,
    /// The clock of the lanes: the first one opened names it for all.
    lanes: Option<Clock>,
    up_since: Option<Instant>,
}

/// The server's clock: that of the lanes, at a fixed distance that tests can change.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    epoch: u32,
    stepped_micros: i64,
}

/// A sudden change of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// Holds run out earlier than their owners believe.
    Forward(Duration),
    /// Holds run out later than their owners believe.
    Back(Duration),
}

/// What a restarted server still knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Every hold, with its expiry: a server that writes each change to its disk.
    DataKept,
    /// Nothing: a server without persistence.
    DataLost,
}

impl Server {
    pub(crate) fn new() -> Self {
        let state = State::default();
        let topology = watch::Sender::new(state.topology());
        Self { state: Mutex::new(state), topology }
    }

    /// The state, locked. A panic inside a pure function leaves nothing half done that would matter here.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    /// Takes a lane's clock as everybody's, or says which one it is already. The server is up since the first lane.
    pub(crate) fn join(&self, clock: Clock) -> Result<(), Clock> {
        let mut state = self.lock();
        let agreed = *state.lanes.get_or_insert(clock);
        if state.up_since.is_none() {
            state.up_since = Some(clock.now());
            self.topology.send_replace(state.topology());
        }
        if agreed == clock { Ok(()) } else { Err(agreed) }
    }

    /// A new run of the server: the topology says so before any command meets it.
    pub(crate) fn restart(&self, restart: Restart) {
        let mut state = self.lock();
        if restart == Restart::DataLost {
            state.table.lose_all();
        }
        state.clock.epoch += 1;
        state.up_since = state.lanes.map(Clock::now);
        self.topology.send_replace(state.topology());
        let watched = state.watchers.all();
        drop(state);
        watched.iter().for_each(count_gap);
    }
}

impl State {
    /// The present moment on both clocks.
    pub(crate) fn moment(&self, clock: Clock) -> Moment {
        let ours = clock.now();
        Moment { ours, server: self.clock.at(ours) }
    }

    /// The present moment for a call that came over no lane; the origin if there was never a lane.
    pub(crate) fn server_now(&self) -> ServerTime {
        self.clock.at(self.lanes.map(Clock::now).unwrap_or_default())
    }

    // Each restart changes the clock's epoch and nothing else changes the topology but the first lane.
    fn topology(&self) -> Arc<Topology> {
        let clock = self.clock.id();
        let epoch = 2 * u64::from(clock.epoch) + u64::from(self.up_since.is_some());
        Arc::new(Topology::single(
            epoch,
            Node {
                id: NODE,
                address: "memory".to_owned(),
                clock,
                up_since: self.up_since.map(Into::into),
                connected: true,
                batch_leases_max: BATCH_LEASES_MAX,
                batching: Batching::AcrossSlots,
            },
        ))
    }
}

impl ServerClock {
    pub(crate) fn step(&mut self, step: ClockStep) {
        let micros = |by: Duration| i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.stepped_micros = match step {
            ClockStep::Forward(by) => self.stepped_micros.saturating_add(micros(by)),
            ClockStep::Back(by) => self.stepped_micros.saturating_sub(micros(by)),
        };
    }

    fn id(&self) -> ClockId {
        ClockId { node: NODE, epoch: self.epoch }
    }

    fn at(&self, ours: Instant) -> ServerTime {
        let micros = ORIGIN_MICROS + ours.as_nanos() / 1000;
        ServerTime { micros: micros.saturating_add_signed(self.stepped_micros), clock: self.id() }
    }
}

/// Far from our clock's own numbers, so that code which takes the one clock for the other is found out at once.
const ORIGIN_MICROS: u64 = 1_000_000_000_000_000;

/// Bounds how long one batch keeps the table locked, to about a tenth of a millisecond.
const BATCH_LEASES_MAX: usize = 1000;
