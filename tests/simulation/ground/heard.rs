//! A recorder that counts the events a test asks about.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{FencingToken, LossReason, Recorder, RenewalOutcome, transport::TransportError};

/// What an engine has said so far. Clones count together.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Counts>>);

#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub waits: u64,
    pub granted: u64,
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
    pub unanswered: HashMap<&'static str, u64>,
    pub renewals: HashMap<RenewalOutcome, u64>,
    pub losses: HashMap<LossReason, u64>,
    pub releases: u64,
    pub nodes: Vec<(String, bool)>,
}

impl Heard {
    pub fn counts(&self) -> Counts {
        self.0.lock().expect("no panic under it").clone()
    }

    pub fn renewals(&self, outcome: RenewalOutcome) -> u64 {
        self.counts().renewals.get(&outcome).copied().unwrap_or(0)
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().expect("no panic under it"));
    }
}

impl Recorder for Heard {
    fn wait_started(&self) {
        self.change(|counts| counts.waits += 1);
    }
    fn granted(&self, _: Duration, contended: bool) {
        self.change(|counts| {
            counts.granted += 1;
            counts.contended += u64::from(contended);
        });
    }
    fn asked(&self, _: Duration) {
        self.change(|counts| counts.asked += 1);
    }
    fn refused(&self) {
        self.change(|counts| counts.refused += 1);
    }
    fn timed_out(&self, _: Duration) {
        self.change(|counts| counts.timed_out += 1);
    }
    fn failed(&self, _: Option<&TransportError>) {
        self.change(|counts| counts.failed += 1);
    }
    fn cancelled(&self) {
        self.change(|counts| counts.cancelled += 1);
    }
    fn grant_without_caller(&self) {
        self.change(|counts| counts.without_caller += 1);
    }
    fn no_expiry(&self) {
        self.change(|counts| counts.no_expiry += 1);
    }
    fn jeopardy(&self) {
        self.change(|counts| counts.jeopardies += 1);
    }
    fn found_ttl(&self, _: Duration, _: Duration, _: Duration) {
        self.change(|counts| counts.found_ttls += 1);
    }
    fn closing(&self, begins: bool) {
        self.change(|counts| counts.closings += u64::from(begins));
    }
    fn unanswered(&self, operation: &'static str, _: &TransportError) {
        self.change(|counts| *counts.unanswered.entry(operation).or_default() += 1);
    }
    fn renewal(&self, outcome: RenewalOutcome, count: u64) {
        self.change(|counts| *counts.renewals.entry(outcome).or_default() += count);
    }
    fn lost(&self, reason: LossReason, _: FencingToken, _: Duration) {
        self.change(|counts| *counts.losses.entry(reason).or_default() += 1);
    }
    fn node_changed(&self, address: &str, connected: bool) {
        self.change(|counts| counts.nodes.push((address.to_owned(), connected)));
    }
    fn released(&self, _: Duration, _: leasehold::ReleaseOutcome) {
        self.change(|counts| counts.releases += 1);
    }
}
