//! What lies between a lane that fails on demand and the lane it wraps.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::{Clock, Instant},
    transport::{Effect, ErrorKind, Lane, LanePurpose, OpenLane, ServerTime, TransportError},
};
use tokio::{runtime::Handle, sync::watch};

use super::{Faults, request::Request};

pub(super) struct Line {
    pub(super) inner: Arc<dyn Lane>,
    pub(super) faults: Faults,
    pub(super) purpose: LanePurpose,
    pub(super) clock: Clock,
    /// The runtime that opened the lane, on which late requests go on when nobody waits for them.
    pub(super) runtime: Handle,
    command_timeout: Duration,
    /// Operations that went by unharmed.
    passed: watch::Sender<u64>,
}

/// A server time and the moment before it was asked for: never more of our time than of the server's lies behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    sent: Instant,
    at: ServerTime,
}

impl Line {
    pub(super) fn new(inner: Arc<dyn Lane>, faults: Faults, open: OpenLane) -> Self {
        let OpenLane { purpose, clock, command_timeout } = open;
        let passed = watch::Sender::default();
        Self { inner, faults, purpose, clock, runtime: Handle::current(), command_timeout, passed }
    }

    /// When the caller of `request` must have an answer.
    pub(super) fn answer_by(&self, request: &Request) -> Instant {
        request.execute_by().unwrap_or_else(|| self.clock.now() + self.command_timeout)
    }

    /// Reads the time of the server that `request` goes to.
    pub(super) async fn probe(&self, request: &Request) -> Result<Probe, TransportError> {
        let sent = self.clock.now();
        let Some(key) = request.first_key() else { return Err(empty_batch()) };
        let seen = self.inner.inspect(key).await;
        // The request itself was not sent, whatever became of the inspection.
        let at = seen.map_err(|error| TransportError { effect: Effect::None, ..error })?.at;
        Ok(Probe { sent, at })
    }

    pub(super) fn count_passed(&self) {
        self.passed.send_modify(|passed| *passed += 1);
    }

    pub(super) fn passed(&self) -> u64 {
        *self.passed.borrow()
    }

    /// Waits until so many operations went by unharmed in the line's life.
    pub(super) async fn until_passed(&self, enough: u64) {
        let mut passed = self.passed.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = passed.wait_for(|passed| *passed >= enough).await;
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

impl Probe {
    /// The latest server time at which a request with this `execute_by` may be executed, rather too late than too
    /// early: the server answered after `sent`, so its time at `execute_by` is at most this. A request without
    /// `execute_by` is reported with the time at which it was sent.
    pub(super) fn not_after(self, execute_by: Option<Instant>) -> ServerTime {
        let ahead = execute_by.map_or(Duration::ZERO, |limit| limit.since(self.sent));
        let ahead = u64::try_from(ahead.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        ServerTime { micros: self.at.micros.saturating_add(ahead), ..self.at }
    }

    /// The server's time, if its clock was moved past the limit of `request` since the probe `before`, although our
    /// clock says that the request is still in time.
    pub(super) fn stepped_past(self, before: Probe, request: &Request) -> Option<ServerTime> {
        let limit = request.execute_by().filter(|limit| self.sent <= *limit)?;
        let past = self.at.is_after(before.not_after(Some(limit))) == Some(true);
        past.then_some(self.at)
    }
}

fn empty_batch() -> TransportError {
    TransportError::without_effect(ErrorKind::Misconfigured, None, "an empty batch goes to no server")
}
