//! One of the engine's lanes: open or not yet open, with its topology and the last error of opening it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::{
    clock::Instant,
    routing::{
        slot::Slot,
        topology::{ClockId, Topology},
    },
    transport::{ErrorKind, Lane, LaneStats, OpenLane, Transport, TransportError},
};

/// One of the engine's two lanes.
#[derive(Default)]
pub(crate) struct LaneSlot {
    open: watch::Sender<Option<OpenedLane>>,
    last_error: Mutex<Option<TransportError>>,
}

#[derive(Clone)]
struct OpenedLane {
    lane: Arc<dyn Lane>,
    topology: watch::Receiver<Arc<Topology>>,
}

impl LaneSlot {
    /// The lane, from its opening until the engine ends.
    pub(crate) fn lane(&self) -> Option<Arc<dyn Lane>> {
        self.open.borrow().as_ref().map(|opened| opened.lane.clone())
    }

    /// The lane's statistics; empty while it is not open.
    pub(crate) fn stats(&self) -> LaneStats {
        self.lane().map_or_else(LaneStats::default, |lane| lane.stats())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.borrow().is_some()
    }

    /// The present topology.
    pub(crate) fn topology(&self) -> Option<Arc<Topology>> {
        self.open.borrow().as_ref().map(|opened| opened.topology.borrow().clone())
    }

    /// Whether an answer with this clock comes from the present server.
    pub(crate) fn is_current(&self, clock: ClockId) -> bool {
        self.open.borrow().as_ref().is_some_and(|opened| opened.topology.borrow().is_current(clock))
    }

    /// Whether the server with this clock is the present one and serves the slot.
    pub(crate) fn is_serving(&self, clock: ClockId, slot: Slot) -> bool {
        self.open.borrow().as_ref().is_some_and(|opened| opened.topology.borrow().is_serving(clock, slot))
    }

    /// Waits for the next change of the topology, or for the lane to open.
    pub(crate) async fn topology_changed(&self) {
        let mut open = self.open.subscribe();
        let topology = open.borrow_and_update().as_ref().map(|opened| opened.topology.clone());
        let changed = match topology {
            Some(mut topology) => {
                topology.mark_unchanged();
                topology.changed().await.is_ok()
            }
            None => open.changed().await.is_ok(),
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the lane is open and its topology has another epoch than this one.
    pub(crate) async fn other_epoch(&self, epoch: Option<u64>) {
        let mut open = self.open.subscribe();
        loop {
            let topology = open.borrow_and_update().as_ref().map(|opened| opened.topology.clone());
            match topology {
                None => wait_for(open.changed()).await,
                Some(mut topology) => {
                    while Some(topology.borrow_and_update().epoch()) == epoch {
                        wait_for(topology.changed()).await;
                    }
                    return;
                }
            }
        }
    }

    /// The last error of opening the lane.
    pub(crate) fn last_error(&self) -> TransportError {
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last_error.unwrap_or_else(|| {
            TransportError::without_effect(ErrorKind::Unreachable, None, "the connection is not open yet")
        })
    }

    /// Opens the lane. Tries again after an error that may pass, until `until`; without `until`, for ever.
    ///
    /// # Errors
    /// An error that is final, or the last error before `until`.
    pub(crate) async fn open(
        &self,
        transport: &dyn Transport,
        how: OpenLane,
        until: Option<Instant>,
    ) -> Result<(), TransportError> {
        loop {
            let last_error = match transport.open(how).await {
                Ok(lane) => {
                    let topology = lane.topology();
                    self.open.send_replace(Some(OpenedLane { lane, topology }));
                    return Ok(());
                }
                Err(last_error) => last_error,
            };
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(last_error.clone());
            let next = how.clock.now() + REOPEN_AFTER;
            if until.is_some_and(|until| last_error.kind.is_final() || next >= until) {
                return Err(last_error);
            }
            how.clock.sleep_until(next).await;
        }
    }

    /// Drops the lane; its connections close.
    pub(crate) fn close(&self) {
        self.open.send_replace(None);
    }
}

impl std::fmt::Debug for LaneSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LaneSlot({:?})", self.topology())
    }
}

// A closed channel tells of no change any more.
async fn wait_for<E>(changed: impl Future<Output = Result<(), E>>) {
    if changed.await.is_err() {
        std::future::pending().await
    }
}

const REOPEN_AFTER: std::time::Duration = std::time::Duration::from_millis(200);
