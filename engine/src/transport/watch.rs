use std::{any::Any, fmt};

use tokio::sync::watch;

/// A watch for the end of holds on one key. Dropping it ends the watch.
pub struct Watch {
    state: watch::Receiver<WatchState>,
    _interest: Option<Box<dyn Any + Send + Sync>>,
}

/// The state of a watch. It has counters, so that a slow reader misses no notice and no gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// Whether the server has confirmed the subscription and the subscription still stands. Starts as `false`, or as
    /// `true` if the subscription was kept warm. The reader counts every change to `true` as a notice, the first
    /// observed `true` included.
    pub in_force: bool,
    /// The number of notices received.
    pub notices: u64,
    /// The number of times at which notices may have been missed.
    pub gaps: u64,
}

impl WatchState {
    /// No notice and no gap yet. `in_force`: whether the subscription stands already.
    pub fn starting(in_force: bool) -> Self {
        Self { in_force, ..Self::default() }
    }
}

impl Watch {
    /// A watch over `state`; `interest` is dropped with the watch.
    pub fn new(state: watch::Receiver<WatchState>, interest: impl Any + Send + Sync) -> Self {
        Self { state, _interest: Some(Box::new(interest)) }
    }

    /// The present counters. The next [`changed`](Self::changed) waits for a later state.
    pub fn observe(&mut self) -> WatchState {
        *self.state.borrow_and_update()
    }

    /// The present counters, without marking them as observed.
    pub fn peek(&self) -> WatchState {
        *self.state.borrow()
    }

    /// Waits for a state that was not observed yet. Never returns again once the lane is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the state stays unobserved.
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
