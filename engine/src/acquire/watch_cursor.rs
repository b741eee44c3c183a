//! Turns the counters of a key's watch into changes that the driver handles.

use crate::transport::{Watch, WatchState};

/// A watch, and the last state of it that the driver has observed.
pub(crate) struct WatchCursor {
    watch: Watch,
    seen: WatchState,
}

/// What has changed since the driver's last observation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchDelta {
    /// Whether there is a watch.
    pub(crate) listening: bool,
    /// Whether the watch is in force.
    pub(crate) in_force: bool,
    /// The number of new notices.
    pub(crate) notices: u64,
    /// Whether the watch has come into force, or notices may have been missed.
    pub(crate) resync: bool,
    /// Whether notices may have been missed.
    pub(crate) gaps: bool,
}

impl WatchCursor {
    pub(crate) fn new(watch: Watch) -> Self {
        // The cursor starts as not in force. So a watch that is in force already is reported as a change.
        let notices = watch.peek();
        Self { watch, seen: WatchState { in_force: false, ..notices } }
    }

    /// Returns the changes since the last observation.
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

    /// Waits for the next change.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }
}
