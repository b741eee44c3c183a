//! A recorder that counts the events a test asks about.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    FencingToken, LockClass, LossReason, Recorder, ReleaseOutcome, RenewalOutcome,
    metrics::{Ask, Operation},
    transport::TransportError,
};

/// What an engine has said so far. Clones count together.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Counts>>);

#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub all: u64,
    pub waits: u64,
    pub granted: u64,
    pub shared: u64,
    pub contended: u64,
    pub asked: u64,
    pub refused: u64,
    pub timed_out: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub without_caller: u64,
    pub no_expiry: u64,
    pub jeopardies: u64,
    pub found_ttls: u64,
    pub closings: u64,
    pub answered: HashMap<Operation, u64>,
    pub unanswered: HashMap<Operation, u64>,
    pub renewals: HashMap<RenewalOutcome, u64>,
    pub losses: HashMap<LossReason, u64>,
    pub releases: HashMap<ReleaseOutcome, u64>,
    pub nodes: Vec<(String, bool)>,
}

impl Heard {
    pub fn counts(&self) -> Counts {
        self.0.lock().expect("no panic under it").clone()
    }

    pub fn renewals(&self, outcome: RenewalOutcome) -> u64 {
        self.counts().renewals.get(&outcome).copied().unwrap_or(0)
    }

    /// Events of any kind, but for those of timers.
    pub fn all(&self) -> u64 {
        self.counts().all
    }

    /// Renewals without an answer, for whatever reason.
    pub fn renewals_failed(&self) -> u64 {
        let is_failed = |outcome: &RenewalOutcome| matches!(outcome, RenewalOutcome::Failed(_));
        let counts = self.counts().renewals;
        counts.into_iter().filter(|(outcome, _)| is_failed(outcome)).map(|(_, count)| count).sum()
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.0.lock().expect("no panic under it");
        counts.all += 1;
        change(&mut counts);
    }
}

impl Recorder for Heard {
    fn wait_started(&self, _: &LockClass) {
        self.change(|counts| counts.waits += 1);
    }
    fn granted(&self, _: &LockClass, _: Duration, contended: bool) {
        self.change(|counts| {
            counts.granted += 1;
            counts.contended += u64::from(contended);
        });
    }
    fn shared(&self, _: &LockClass) {
        self.change(|counts| counts.shared += 1);
    }
    fn asked(&self, _: &LockClass, ask: &Ask<'_>) {
        self.change(|counts| {
            counts.asked += 1;
            *counts.unanswered.entry(Operation::Acquire).or_default() += u64::from(ask.answer.is_err());
        });
    }
    fn refused(&self, _: &LockClass) {
        self.change(|counts| counts.refused += 1);
    }
    fn timed_out(&self, _: &LockClass, _: Duration) {
        self.change(|counts| counts.timed_out += 1);
    }
    fn failed(&self, _: &LockClass, _: Option<&TransportError>) {
        self.change(|counts| counts.failed += 1);
    }
    fn cancelled(&self, _: &LockClass) {
        self.change(|counts| counts.cancelled += 1);
    }
    fn grant_without_caller(&self) {
        self.change(|counts| counts.without_caller += 1);
    }
    fn no_expiry(&self) {
        self.change(|counts| counts.no_expiry += 1);
    }
    fn jeopardy(&self, _: &LockClass) {
        self.change(|counts| counts.jeopardies += 1);
    }
    fn found_ttl(&self, _: &LockClass, _: Duration, _: Duration, _: Duration) {
        self.change(|counts| counts.found_ttls += 1);
    }
    fn closing(&self, begins: bool) {
        self.change(|counts| counts.closings += u64::from(begins));
    }
    fn answered(&self, operation: Operation, _: Duration, last_error: Option<&TransportError>) {
        self.change(|counts| {
            *counts.unanswered.entry(operation).or_default() += u64::from(last_error.is_some());
            *counts.answered.entry(operation).or_default() += 1;
        });
    }
    fn renewal(&self, _: &LockClass, outcome: RenewalOutcome, count: u64) {
        self.change(|counts| *counts.renewals.entry(outcome).or_default() += count);
    }
    fn lost(&self, _: &LockClass, reason: LossReason, _: FencingToken, _: Duration, _: Option<Duration>) {
        self.change(|counts| *counts.losses.entry(reason).or_default() += 1);
    }
    fn node_changed(&self, address: &str, connected: bool) {
        self.change(|counts| counts.nodes.push((address.to_owned(), connected)));
    }
    fn released(&self, _: &LockClass, _: Duration, outcome: ReleaseOutcome) {
        self.change(|counts| *counts.releases.entry(outcome).or_default() += 1);
    }
    fn renewed(&self, _: usize, _: Duration, _: bool) {
        self.change(|_| {});
    }
    fn margin_left(&self, _: &LockClass, _: f64) {
        self.change(|_| {});
    }
    fn renewal_late(&self, _: Duration) {
        self.change(|_| {});
    }
    fn subscription_gap(&self) {
        self.change(|_| {});
    }
    fn reconnected(&self, _: &str) {
        self.change(|_| {});
    }
}
