//! The changes of a key's watch since a driver last looked.

use crate::transport::{Watch, WatchState};

/// A watch, and the state in which the driver saw it last.
pub(crate) struct WatchCursor {
    watch: Watch,
    seen: WatchState,
}

/// What has changed since the driver's last observation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchDelta {
    /// Whether there is a watch.
    pub(crate) listening: bool,
    /// The watch is in force.
    pub(crate) in_force: bool,
    /// The number of new notices.
    pub(crate) notices: u64,
    /// The watch came in force, or notices may have been missed.
    pub(crate) resync: bool,
    /// Whether notices may have been missed.
    pub(crate) gaps: bool,
}

impl WatchCursor {
    pub(crate) fn new(watch: Watch) -> Self {
        // Counts as not in force yet, so that the first look reports a watch that is in force.
        let notices = watch.peek();
        Self { watch, seen: WatchState { in_force: false, ..notices } }
    }

    /// The changes since the last look.
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

    /// Waits for a change.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }
}
