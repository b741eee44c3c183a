#![doc = include_str!("../README.md")]

pub mod faults;
mod lane;
mod server;
mod table;
mod watchers;

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    transport::{BoxFuture, Capabilities, ErrorKind, Lane, OpenLane, Transport, TransportError},
};

pub use faults::{Cut, Fault, Faults, Faulty, Operation};
pub use server::{ClockStep, Restart};
pub use table::PeerHold;

use crate::{lane::MemoryLane, server::Server};

/// Locks kept in the memory of this process.
///
/// Clones share one table: two engines on clones exclude each other as two processes on one server do. They must use
/// the same clock, since the table takes its time from the lane that asks: all engines on clones with threads of
/// their own, or all on the caller's runtime.
///
/// The table keeps its holds until the last clone, lane and engine is gone. Fencing tokens rise for as long as the
/// table lives; those of another table or of an earlier life of the process cannot be compared.
///
/// # Examples
/// ```
/// use leasehold_memory::MemoryTransport;
///
/// let transport = MemoryTransport::new();
/// let as_seen_by_another_process = transport.clone();
/// # let _ = as_seen_by_another_process;
/// ```
#[derive(Clone, Debug)]
pub struct MemoryTransport {
    server: Arc<Server>,
}

impl MemoryTransport {
    /// A transport with an empty table of its own.
    pub fn new() -> Self {
        Self { server: Arc::new(Server::new()) }
    }

    /// Changes the server's clock at once, as an administrator or a bad time source would; for tests. Holds keep the
    /// server time at which they run out. Our own clock, and with it `execute_by`, is not touched.
    pub fn step_server_clock(&self, step: ClockStep) {
        self.server.lock().clock.step(step);
    }

    /// Restarts the server, for tests: the node gets a new epoch, is up since now, and every watch counts a gap.
    ///
    /// # Panics
    /// If the lanes are on tokio's clock and the call is made outside of a tokio runtime.
    pub fn restart(&self, restart: Restart) {
        self.server.restart(restart);
    }

    /// Puts the hold of a peer in the place of whatever is there, for tests of what Leasehold itself never leaves
    /// behind: no expiry, a count above 1, an owner that is not spelled like ours. Nobody is notified.
    ///
    /// # Panics
    /// If the lanes are on tokio's clock and the call is made outside of a tokio runtime.
    pub fn put_peer_hold(&self, key: &Arc<LockKey>, peer: PeerHold) {
        let mut state = self.server.lock();
        let at = state.server_now();
        state.table.put_peer(key.clone(), peer, at);
    }

    /// How many holds are in memory: those that live, and at most as many again plus 1,024 that ran out and were
    /// not swept yet.
    pub fn stored_holds(&self) -> usize {
        self.server.lock().table.stored()
    }

    /// How many keys are watched.
    pub fn watched_keys(&self) -> usize {
        self.server.lock().watchers.keys()
    }

    fn open_on(self, clock: Clock) -> Result<Arc<dyn Lane>, TransportError> {
        self.server.join(clock).map_err(|agreed| other_clock(clock, agreed))?;
        Ok(Arc::new(MemoryLane::new(self.server, clock)))
    }
}

impl Default for MemoryTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for MemoryTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "memory", notices: true, uptime: true, ttl_max: TTL_MAX }
    }

    fn open(&self, lane: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let transport = self.clone();
        Box::pin(async move { transport.open_on(lane.clock) })
    }
}

fn other_clock(asked: Clock, agreed: Clock) -> TransportError {
    let detail = format!(
        "engines on clones of one MemoryTransport must use one clock, and this one asks for {asked:?} where the \
         first used {agreed:?}; build all of them on_current_runtime(), or none"
    );
    TransportError::without_effect(ErrorKind::Misconfigured, Some(server::NODE), detail)
}

/// A hundred years; longer than any process, and its microseconds are far from the end of an `u64`.
const TTL_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
