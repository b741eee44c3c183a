//! The simulated server: the table, its clock and the watches, behind one mutex that all clones share.
//!
//! The current moment is read *under* the lock. So server time never runs backwards from one operation to the next,
//! unless a test steps the clock. Watches are notified after unlocking.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    key::{Family, LockKey},
    routing::topology::{ClockId, Node, NodeId, Topology},
    transport::{Call, Counter, CounterCall, CounterOp, CounterReply, Inspection, Outcome, ServerTime},
};
use tokio::sync::watch;

use crate::{
    counters::Counters,
    permits::PermitHolds,
    table::{Moment, Table},
    watchers::{Watchers, count_gap},
};

/// The id of the only node.
pub(crate) const NODE: NodeId = NodeId(0);

#[derive(Debug)]
pub(crate) struct Server {
    state: Mutex<State>,
    topology: watch::Sender<Arc<Topology>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) counters: Counters,
    pub(crate) permits: PermitHolds,
    pub(crate) watchers: Watchers,
    pub(crate) clock: ServerClock,
    /// The clock of all lanes. The first lane that is opened sets it.
    lanes: Option<Clock>,
    up_since: Option<Instant>,
    /// No other table of this process has the same.
    number: u64,
}

/// The server's clock: the clock of the lanes plus a fixed offset, which tests can change.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    epoch: u32,
    stepped_micros: i64,
}

/// A step of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// Holds expire earlier than their owners expect.
    Forward(Duration),
    /// Holds expire later than their owners expect.
    Back(Duration),
}

/// The data that a restarted server still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Every hold, with its expiry, like a server that writes each change to its disk.
    DataKept,
    /// Nothing, like a server without persistence.
    DataLost,
}

impl Server {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let state = State { number: NEXT.fetch_add(1, Ordering::Relaxed), ..State::default() };
        let topology = watch::Sender::new(state.topology());
        Self { state: Mutex::new(state), topology }
    }

    /// Locks the state. A poisoned lock is used: the pure functions under it leave no state half changed that would
    /// matter here.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    /// Sets the clock of all lanes, or returns the one that is set already. The server is up since the first lane.
    pub(crate) fn join(&self, clock: Clock) -> Result<(), Clock> {
        let mut state = self.lock();
        let agreed = *state.lanes.get_or_insert(clock);
        if state.up_since.is_none() {
            state.up_since = Some(clock.now());
            self.topology.send_replace(state.topology());
        }
        if agreed == clock { Ok(()) } else { Err(agreed) }
    }

    /// Starts a new run of the server. The topology shows it before any command reaches it.
    pub(crate) fn restart(&self, restart: Restart) {
        let mut state = self.lock();
        if restart == Restart::DataLost {
            state.table.lose_all();
            state.counters.lose_all();
            state.permits.lose_all();
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
    /// Executes one call and sets its outcome. Returns whether the watchers of the key are to be notified.
    pub(crate) fn execute(&mut self, call: &mut Call, now: Moment) -> bool {
        if call.key.family() == Family::Permits && call.kind.family() == Family::Permits {
            let is_told;
            (call.outcome, is_told) = self.permits.execute(call, now, &mut self.counters);
            return is_told;
        }
        call.outcome = self.table.execute(call, now);
        matches!(
            call.outcome,
            Outcome::Released { listeners: Some(_), .. } | Outcome::Downgraded { listeners: Some(_), .. }
        )
    }

    /// Executes one operation on a counter. Returns the reply, and whether its watchers are to be notified.
    pub(crate) fn count(&mut self, call: &CounterCall, now: Moment) -> (CounterReply, bool) {
        let (mut reply, is_told) = self.counters.count(call, now);
        if let (Counter::PermitTotal, CounterOp::Read, CounterReply::Done { result, left, .. }) =
            (call.counter, &call.op, &mut reply)
        {
            *left += self.permits.expired(&call.key, now.server);
            *result = *left;
        }
        (reply, is_told)
    }

    /// Returns the holds of the key.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        match key.family() {
            Family::Permits => self.permits.inspect(key, at, self.counters.available(key)),
            _ => self.table.inspect(key, at),
        }
    }

    /// Ends all holds of the key. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        match key.family() {
            Family::Permits => self.permits.force_release(key, at, &mut self.counters),
            _ => self.table.force_release(key, at),
        }
    }

    /// Returns the current moment on both clocks.
    pub(crate) fn moment(&self, clock: Clock) -> Moment {
        let ours = clock.now();
        Moment { ours, server: self.clock.at(ours) }
    }

    /// Returns the current server time for a call without a lane. Before the first lane, this is the origin.
    pub(crate) fn server_now(&self) -> ServerTime {
        self.clock.at(self.lanes.map(Clock::now).unwrap_or_default())
    }

    // The version of the topology follows from the two events that change it: a restart, which raises the clock's
    // epoch, and the first lane.
    fn topology(&self) -> Arc<Topology> {
        let clock = self.clock.id();
        let epoch = 2 * u64::from(clock.epoch) + u64::from(self.up_since.is_some());
        let mut node = Node::new(clock, "memory", BATCH_LEASES_MAX);
        node.up_since = self.up_since.map(Into::into);
        node.run_id = Some(format!("memory-{}-{}", self.number, clock.epoch).into());
        node.connected = true;
        Arc::new(Topology::single(epoch, node))
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

/// Far from the values of the lanes' clock, so that code which confuses the two clocks fails at once.
const ORIGIN_MICROS: u64 = 1_000_000_000_000_000;

/// Limits the time for which one batch keeps the table locked to about 0.1 ms.
const BATCH_LEASES_MAX: usize = 1000;
