#![doc = include_str!("../README.md")]

mod begun;
mod by_key;
mod counters;
mod exclusive;
mod fair;
pub mod faults;
mod hold;
mod lane;
mod line;
mod permits;
mod read_write;
mod server;
mod table;
mod watchers;

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    transport::{BoxFuture, Capabilities, ErrorKind, Kinds, Lane, OpenLane, Transport, TransportError},
};

pub use faults::{Cut, Fault, Faults, Faulty, Operation};
pub use hold::PeerHold;
pub use server::{ClockStep, Restart};

use crate::{lane::MemoryLane, server::Server};

/// Locks in the memory of this process.
///
/// Clones share one table: two engines on clones exclude each other like two processes with one server. They must
/// use the same clock, because the table takes its time from the lane of each call. So either all engines on clones
/// have their own threads, or all of them run on the caller's runtime.
///
/// The table keeps its holds until the last clone, lane and engine is dropped. Fencing tokens rise as long as the
/// table exists. Tokens of another table, or of an earlier process, cannot be compared.
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
    /// Creates a transport with its own empty table.
    pub fn new() -> Self {
        Self { server: Arc::new(Server::new()) }
    }

    /// Steps the server's clock, as an administrator or a bad time source would. For tests. Holds keep the server
    /// time at which they expire. The clock of the lanes, and with it `execute_by`, does not change.
    pub fn step_server_clock(&self, step: ClockStep) {
        self.server.lock().clock.step(step);
    }

    /// Restarts the server, for tests. The node gets a new epoch, is up since now, and every watch counts a gap.
    ///
    /// # Panics
    /// If the lanes use tokio's clock and the call is made outside of a tokio runtime.
    pub fn restart(&self, restart: Restart) {
        self.server.restart(restart);
    }

    /// Replaces the holds of the lock, of whichever kind, with a peer's hold. For tests of holds that Leasehold itself never writes:
    /// without an expiry, with a count above 1, or with an owner in another format. On a read/write lock it is a write
    /// hold. No watch is notified.
    ///
    /// # Panics
    /// If the lanes use tokio's clock and the call is made outside of a tokio runtime.
    pub fn put_peer_hold(&self, key: &Arc<LockKey>, peer: PeerHold) {
        let mut state = self.server.lock();
        let at = state.server_now();
        state.table.put_peer(key.clone(), peer, at);
    }

    /// Sets the token counter of a fenced lock, or removes it for `None`. For tests of counters that another client has
    /// set or deleted.
    pub fn put_token_counter(&self, key: &Arc<LockKey>, counter: Option<u64>) {
        self.server.lock().table.put_counter(key.clone(), counter);
    }

    /// Returns the number of holds and of places in lines in memory: the live ones, and expired ones that were not swept yet. The expired
    /// ones are at most as many as the live ones, plus 1,024.
    pub fn stored_holds(&self) -> usize {
        let state = self.server.lock();
        state.table.stored() + state.permits.stored()
    }

    /// Returns how many last operations on counters are remembered, expired ones that were not swept included.
    pub fn stored_operations(&self) -> usize {
        self.server.lock().counters.stored_markers()
    }

    /// Returns the number of watched keys.
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
        Capabilities::new(table::NAME, TTL_MAX)
            .with_notices()
            .with_uptime()
            .with_kinds(KINDS)
            .with_hand_offs()
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

const KINDS: Kinds = Kinds::EXCLUSIVE
    .with(Kinds::FENCED)
    .with(Kinds::FAIR)
    .with(Kinds::READ_WRITE)
    .with(Kinds::PERMITS)
    .with(Kinds::SEMAPHORE)
    .with(Kinds::LATCH);

/// A hundred years. It is longer than any process runs, and its microseconds are far below the maximum of a `u64`.
const TTL_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
