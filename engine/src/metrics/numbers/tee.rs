//! The numbers beside the user's own recorder: both hear of every event.

use std::{sync::Arc, time::Duration};

use super::Numbers;
use crate::{
    fencing::FencingToken,
    lease::state::LossReason,
    metrics::{Ask, EngineThread, LockClass, Operation, Recorder, ReleaseOutcome, RenewalOutcome},
    transport::TransportError,
};

/// Both hear of every event.
pub(crate) struct Tee {
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) user: Arc<dyn Recorder>,
}

impl Recorder for Tee {
    fn wait_started(&self, class: &LockClass) {
        self.numbers.wait_started(class);
        self.user.wait_started(class);
    }
    fn granted(&self, class: &LockClass, waited: Duration, contended: bool) {
        self.numbers.granted(class, waited, contended);
        self.user.granted(class, waited, contended);
    }
    fn shared(&self, class: &LockClass) {
        self.numbers.shared(class);
        self.user.shared(class);
    }
    fn refused(&self, class: &LockClass) {
        self.numbers.refused(class);
        self.user.refused(class);
    }
    fn timed_out(&self, class: &LockClass, waited: Duration) {
        self.numbers.timed_out(class, waited);
        self.user.timed_out(class, waited);
    }
    fn failed(&self, class: &LockClass, last_error: Option<&TransportError>) {
        self.numbers.failed(class, last_error);
        self.user.failed(class, last_error);
    }
    fn cancelled(&self, class: &LockClass) {
        self.numbers.cancelled(class);
        self.user.cancelled(class);
    }
    fn grant_without_caller(&self) {
        self.numbers.grant_without_caller();
        self.user.grant_without_caller();
    }
    fn asked(&self, class: &LockClass, ask: &Ask<'_>) {
        self.numbers.asked(class, ask);
        self.user.asked(class, ask);
    }
    fn answered(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {
        self.numbers.answered(operation, took, last_error);
        self.user.answered(operation, took, last_error);
    }
    fn released(&self, class: &LockClass, held: Duration, outcome: ReleaseOutcome) {
        self.numbers.released(class, held, outcome);
        self.user.released(class, held, outcome);
    }
    fn lost(
        &self,
        class: &LockClass,
        reason: LossReason,
        token: FencingToken,
        held: Duration,
        late: Option<Duration>,
    ) {
        self.numbers.lost(class, reason, token, held, late);
        self.user.lost(class, reason, token, held, late);
    }
    fn jeopardy(&self, class: &LockClass) {
        self.numbers.jeopardy(class);
        self.user.jeopardy(class);
    }
    fn renewed(&self, members: usize, took: Duration, answered: bool) {
        self.numbers.renewed(members, took, answered);
        self.user.renewed(members, took, answered);
    }
    fn renewal(&self, class: &LockClass, outcome: RenewalOutcome, count: u64) {
        self.numbers.renewal(class, outcome, count);
        self.user.renewal(class, outcome, count);
    }
    fn margin_left(&self, class: &LockClass, share: f64) {
        self.numbers.margin_left(class, share);
        self.user.margin_left(class, share);
    }
    fn renewal_late(&self, late: Duration) {
        self.numbers.renewal_late(late);
        self.user.renewal_late(late);
    }
    fn found_ttl(&self, class: &LockClass, found: Duration, least: Duration, most: Duration) {
        self.numbers.found_ttl(class, found, least, most);
        self.user.found_ttl(class, found, least, most);
    }
    fn no_expiry(&self) {
        self.numbers.no_expiry();
        self.user.no_expiry();
    }
    fn subscription_gap(&self) {
        self.numbers.subscription_gap();
        self.user.subscription_gap();
    }
    fn node_changed(&self, address: &str, connected: bool) {
        self.numbers.node_changed(address, connected);
        self.user.node_changed(address, connected);
    }
    fn reconnected(&self, address: &str) {
        self.numbers.reconnected(address);
        self.user.reconnected(address);
    }
    fn closing(&self, begins: bool) {
        self.numbers.closing(begins);
        self.user.closing(begins);
    }
    fn timer_late(&self, thread: EngineThread, late: Duration) {
        self.numbers.timer_late(thread, late);
        self.user.timer_late(thread, late);
    }
}
