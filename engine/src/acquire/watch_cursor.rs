//! What a driver hears of its key: the watch's counters, turned into news.

use crate::transport::{Watch, WatchState};

/// A watch and what of it was already told.
pub(crate) struct WatchCursor {
    watch: Watch,
    seen: WatchState,
}

/// What is new since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchDelta {
    /// There is a watch.
    pub(crate) listening: bool,
    /// It is in force.
    pub(crate) in_force: bool,
    /// New notices.
    pub(crate) notices: u64,
    /// It came in force, or notices may have been missed.
    pub(crate) resync: bool,
    /// Notices may have been missed.
    pub(crate) gaps: bool,
}

impl WatchCursor {
    pub(crate) fn new(watch: Watch) -> Self {
        // Not in force yet for us: if it is, that is news.
        let notices = watch.peek();
        Self { watch, seen: WatchState { in_force: false, ..notices } }
    }

    /// What is new.
    pub(crate) fn observe(&mut self) -> WatchDelta {
        let now = self.watch.observe();
        let seen = std::mem::replace(&mut self.seen, now);
        WatchDelta {
            listening: true,
            in_force: now.in_force,
            notices: now.notices - seen.notices,
            resync: (now.in_force && !seen.in_force) || now.gaps != seen.gaps,
            gaps: now.gaps != seen.gaps,
        }
    }

    /// Waits for something new.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }
}
