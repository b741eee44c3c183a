//! The latest time on the clock of its server at which a request may be executed. Pure.

use std::time::Duration;

use leasehold::{clock::Instant, transport::ServerTime};

/// A server time, and the moment before it was requested. At most as much time has passed on the server since `at`
/// as on our clock since `sent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    sent: Instant,
    at: ServerTime,
}

impl Probe {
    pub(super) fn new(sent: Instant, at: ServerTime) -> Self {
        Self { sent, at }
    }

    /// Returns the latest server time at which a request with this `execute_by` may be executed. The result may be
    /// too late, never too early: the server answered after `sent`, so its time at `execute_by` is at most this.
    /// For a request without `execute_by` the result is the server time of the probe.
    pub(super) fn not_after(self, execute_by: Option<Instant>) -> ServerTime {
        let ahead = execute_by.map_or(Duration::ZERO, |limit| limit.since(self.sent));
        let ahead = u64::try_from(ahead.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        ServerTime { micros: self.at.micros.saturating_add(ahead), ..self.at }
    }

    /// Returns the server's time if its clock was moved past `execute_by` since the probe `before`, although our clock
    /// says that the request is still in time.
    pub(super) fn stepped_past(self, before: Probe, execute_by: Option<Instant>) -> Option<ServerTime> {
        let limit = execute_by.filter(|limit| self.sent <= *limit)?;
        let past = self.at.is_after(before.not_after(Some(limit))) == Some(true);
        past.then_some(self.at)
    }
}
