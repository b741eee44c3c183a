//! A recorder that runs one function at every event: for tests of user code that panics, blocks or is slow.

use std::time::Duration;

use leasehold::{
    FencingToken, LockClass, LossReason, Recorder, ReleaseOutcome, RenewalOutcome,
    metrics::{Ask, EngineThread, Operation},
    transport::TransportError,
};

/// Calls the function with the name of each event.
pub struct EveryEvent<F>(pub F);

impl<F: Fn(&'static str) + Send + Sync + 'static> Recorder for EveryEvent<F> {
    fn wait_started(&self, _: &LockClass) {
        (self.0)("wait_started");
    }
    fn granted(&self, _: &LockClass, _: Duration, _: bool) {
        (self.0)("granted");
    }
    fn shared(&self, _: &LockClass) {
        (self.0)("shared");
    }
    fn refused(&self, _: &LockClass) {
        (self.0)("refused");
    }
    fn timed_out(&self, _: &LockClass, _: Duration) {
        (self.0)("timed_out");
    }
    fn failed(&self, _: &LockClass, _: Option<&TransportError>) {
        (self.0)("failed");
    }
    fn cancelled(&self, _: &LockClass) {
        (self.0)("cancelled");
    }
    fn grant_without_caller(&self) {
        (self.0)("grant_without_caller");
    }
    fn asked(&self, _: &LockClass, _: &Ask<'_>) {
        (self.0)("asked");
    }
    fn answered(&self, operation: Operation, _: Duration, _: Option<&TransportError>) {
        (self.0)(match operation {
            Operation::Acquire => "answered acquire",
            Operation::Release => "answered release",
            Operation::Renew => "answered renew",
            other => unreachable!("{other:?} is in no list of events here"),
        });
    }
    fn released(&self, _: &LockClass, _: Duration, _: ReleaseOutcome) {
        (self.0)("released");
    }
    fn lost(&self, _: &LockClass, _: LossReason, _: FencingToken, _: Duration, _: Option<Duration>) {
        (self.0)("lost");
    }
    fn jeopardy(&self, _: &LockClass) {
        (self.0)("jeopardy");
    }
    fn renewed(&self, _: usize, _: Duration, _: bool) {
        (self.0)("renewed");
    }
    fn renewal(&self, _: &LockClass, _: RenewalOutcome, _: u64) {
        (self.0)("renewal");
    }
    fn margin_left(&self, _: &LockClass, _: f64) {
        (self.0)("margin_left");
    }
    fn renewal_late(&self, _: Duration) {
        (self.0)("renewal_late");
    }
    fn found_ttl(&self, _: &LockClass, _: Duration, _: Duration, _: Duration) {
        (self.0)("found_ttl");
    }
    fn no_expiry(&self) {
        (self.0)("no_expiry");
    }
    fn subscription_gap(&self) {
        (self.0)("subscription_gap");
    }
    fn node_changed(&self, _: &str, _: bool) {
        (self.0)("node_changed");
    }
    fn reconnected(&self, _: &str) {
        (self.0)("reconnected");
    }
    fn closing(&self, _: bool) {
        (self.0)("closing");
    }
    fn timer_late(&self, thread: EngineThread, _: Duration) {
        (self.0)(match thread {
            EngineThread::Calls => "timer_late calls",
            EngineThread::Renewal => "timer_late renewal",
            other => unreachable!("{other:?} is in no list of events here"),
        });
    }
}
