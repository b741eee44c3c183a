//! The connection between a [`Faulty`](super::Faulty) lane and the lane that it wraps.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::{Clock, Instant},
    transport::{
        CounterCall, CounterOp, CounterReply, ErrorKind, Lane, LanePurpose, OpenLane, TransportError,
    },
};
use tokio::{runtime::Handle, sync::watch};

use super::{Faults, probe::Probe, request::Request};

pub(super) struct Line {
    pub(super) inner: Arc<dyn Lane>,
    pub(super) faults: Faults,
    pub(super) purpose: LanePurpose,
    pub(super) clock: Clock,
    /// The runtime that has opened the lane. Late requests run on it after their callers have gone.
    pub(super) runtime: Handle,
    command_timeout: Duration,
    /// How many operations have passed without a fault.
    passed: watch::Sender<u64>,
}

impl Line {
    pub(super) fn new(inner: Arc<dyn Lane>, faults: Faults, open: OpenLane) -> Self {
        let OpenLane { purpose, clock, command_timeout, .. } = open;
        let passed = watch::Sender::default();
        Self { inner, faults, purpose, clock, runtime: Handle::current(), command_timeout, passed }
    }

    /// Returns the moment by which the caller of `request` must have an answer.
    pub(super) fn answer_by(&self, request: &Request) -> Instant {
        request.execute_by().unwrap_or_else(|| self.clock.now() + self.command_timeout)
    }

    /// Reads the time of the server that `request` goes to.
    pub(super) async fn probe(&self, request: &Request) -> Result<Probe, TransportError> {
        let sent = self.clock.now();
        let at = match request {
            Request::Count(call) => self.inner.count(self.read_of(call)).await.map(CounterReply::at),
            request => {
                let Some(key) = request.first_key() else { return Err(empty_batch()) };
                self.inner.inspect(key).await.map(|seen| seen.at)
            }
        };
        // The request itself was not sent, whatever happened to this one.
        Ok(Probe::new(sent, at.map_err(TransportError::never_executed)?))
    }

    fn read_of(&self, call: &CounterCall) -> CounterCall {
        let execute_by = self.clock.now() + self.command_timeout;
        CounterCall { op: CounterOp::Read, number: 0, execute_by, ..call.clone() }
    }

    pub(super) fn count_passed(&self) {
        self.passed.send_modify(|passed| *passed += 1);
    }

    pub(super) fn passed(&self) -> u64 {
        *self.passed.borrow()
    }

    /// Waits until at least `enough` operations in total have passed without a fault.
    pub(super) async fn until_passed(&self, enough: u64) {
        let mut passed = self.passed.subscribe();
        // `self` owns the sender, so this wait cannot fail.
        let _ = passed.wait_for(|passed| *passed >= enough).await;
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

fn empty_batch() -> TransportError {
    TransportError::without_effect(ErrorKind::Misconfigured, None, "an empty batch goes to no server")
}
