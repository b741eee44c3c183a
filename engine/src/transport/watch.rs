use std::{any::Any, fmt};

use tokio::sync::watch;

/// An interest in the end of holds on one key. Dropping it ends the interest.
pub struct Watch {
    state: watch::Receiver<WatchState>,
    _interest: Option<Box<dyn Any + Send + Sync>>,
}

/// Counters, so that a slow reader misses nothing that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// Whether the server has confirmed the subscription and it still stands. Starts `false` or `true` (when
    /// it was kept warm); every change to `true`, the first sight of it included, counts as a notice for the reader.
    pub in_force: bool,
    /// Notices received.
    pub notices: u64,
    /// Times at which notices may have been missed.
    pub gaps: u64,
}

impl Watch {
    /// A watch over `state`; `interest` is dropped with it.
    pub fn new(state: watch::Receiver<WatchState>, interest: impl Any + Send + Sync) -> Self {
        Self { state, _interest: Some(Box::new(interest)) }
    }

    /// The counters now; the next [`changed`](Self::changed) waits for a state later than this one.
    pub fn observe(&mut self) -> WatchState {
        *self.state.borrow_and_update()
    }

    /// The counters now, without marking them as observed.
    pub fn peek(&self) -> WatchState {
        *self.state.borrow()
    }

    /// Waits for a state that was not observed yet. Never returns again once the lane is gone.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: the state stays unobserved.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?})", *self.state.borrow())
    }
}
