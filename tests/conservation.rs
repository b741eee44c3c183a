//! Nothing is counted twice and nothing is forgotten: the sums that hold in an engine's own metrics, for each class and
//! kind, on any transport and whatever went wrong, whenever nothing is on its way.
//!
//! A lease whose release is under way is in none of the sums, and neither is a call between two of its counters; so
//! engines that work on threads of their own are looked at until they balance, which a wrong sum never does.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use leasehold::{
    Engine, Snapshot,
    metrics::{Metrics, Sample, Value},
};

use crate::harness::{polling::holds_within, secrets::MARKER};

/// What an engine's metrics are at one moment; of a histogram, how many values it has.
pub struct Numbers(HashMap<&'static str, Vec<Sample>>);

impl Numbers {
    /// Now.
    ///
    /// # Panics
    /// When the engine was built without metrics.
    pub fn of(engine: &Engine) -> Self {
        Self::read(&engine.metrics().expect("built with metrics"))
    }

    /// Now. Of an engine that is gone, without its gauges.
    pub fn read(metrics: &Metrics) -> Self {
        let families = metrics.read();
        let samples = || families.iter().flat_map(|family| &family.samples);
        assert!(
            samples().flat_map(|sample| &sample.labels).all(|label| !label.contains(MARKER)),
            "a secret in a label"
        );
        Self(families.into_iter().map(|family| (family.descriptor.name, family.samples)).collect())
    }

    /// All classes that there are.
    pub fn classes(&self) -> Vec<String> {
        let classes: BTreeSet<_> = self.locks().into_iter().map(|[class, _]| class).collect();
        classes.into_iter().collect()
    }

    /// Each class with each of its kinds.
    fn locks(&self) -> Vec<[String; 2]> {
        let of_lock = &self.0["leasehold_acquire_started_total"];
        of_lock.iter().map(|sample| [0, 1].map(|label| sample.labels[label].clone())).collect()
    }

    /// Of all samples with this first label.
    pub fn sum(&self, metric: &str, class: &str) -> f64 {
        self.total(metric, |labels| labels[0] == class)
    }

    /// The sample with just these labels.
    ///
    /// # Panics
    /// When there is none.
    pub fn one(&self, metric: &str, labels: &[&str]) -> f64 {
        let found = self.0[metric].iter().find(|sample| sample.labels == labels);
        number(found.unwrap_or_else(|| panic!("{metric} {labels:?} in {:?}", self.0[metric])))
    }

    /// Whether there is any.
    pub fn has(&self, metric: &str) -> bool {
        !self.0[metric].is_empty()
    }

    /// Of all samples whose labels fit.
    pub fn total(&self, metric: &str, fits: impl Fn(&[String]) -> bool) -> f64 {
        self.0[metric].iter().filter(|sample| fits(&sample.labels)).map(number).sum()
    }

    fn sums(&self) -> Vec<Sum> {
        let of_locks = self.locks().into_iter().flat_map(|lock| self.sums_of_lock(&lock));
        of_locks.chain(self.sums_of_commands()).collect()
    }

    fn sums_of_lock(&self, lock: &[String; 2]) -> [Sum; 5] {
        let of = |metric: &'static str| (metric, self.total(metric, |labels| labels.starts_with(lock)));
        let one = |metric, outcome: &'static str| (outcome, self.one(metric, &[&lock[0], &lock[1], outcome]));
        let acquired = one("leasehold_acquire_total", "acquired");
        let timed_out = one("leasehold_acquire_total", "timeout");
        let (released, lost) = (of("leasehold_release_total"), of("leasehold_leases_lost_total"));
        let sum = |whole, parts| Sum { of: lock.join(" "), whole, parts };
        [
            sum(
                of("leasehold_acquire_started_total"),
                vec![of("leasehold_acquire_total"), of("leasehold_waiters")],
            ),
            sum(acquired, vec![released, lost, of("leasehold_held")]),
            sum(of("leasehold_hold_seconds"), vec![released, lost]),
            sum(acquired, vec![one("leasehold_acquire_wait_seconds", "acquired")]),
            sum(timed_out, vec![one("leasehold_acquire_wait_seconds", "timeout")]),
        ]
    }

    // The snapshot has counters of its own.
    fn sums_of_engine(&self, seen: &Snapshot) -> Vec<Sum> {
        let acquired = self.total("leasehold_acquire_total", |labels| labels[2] == "acquired");
        let all = |metric| self.total(metric, |_| true);
        let sum = |what, seen: u64, classes| Sum {
            of: "snapshot".to_owned(),
            whole: (what, seen as f64),
            parts: vec![("all classes", classes)],
        };
        vec![
            sum("granted", seen.granted, acquired),
            sum("released", seen.released, all("leasehold_release_total")),
            sum("lost", seen.lost, all("leasehold_leases_lost_total")),
            sum("held", seen.held, all("leasehold_held")),
            sum("waiting", seen.waiting, all("leasehold_waiters")),
        ]
    }

    // Every ask is a command, and every command without an answer an error.
    fn sums_of_commands(&self) -> Vec<Sum> {
        let commands = "leasehold_backend_command_seconds";
        let asks = ("asks", self.total("leasehold_acquire_attempts_total", |_| true));
        let acquires = (commands, self.total(commands, |labels| labels[1] == "acquire"));
        let errors = |operation: &str| Sum {
            of: operation.to_owned(),
            whole: (commands, self.total(commands, |labels| labels[1] == operation && labels[2] == "error")),
            parts: vec![(
                "errors",
                self.total("leasehold_backend_errors_total", |labels| labels[1] == operation),
            )],
        };
        let mut sums = vec![Sum { of: "asks".to_owned(), whole: asks, parts: vec![acquires] }];
        sums.extend(["acquire", "release", "renew"].map(errors));
        sums
    }
}

/// A number, and what it must be the sum of.
#[derive(Debug)]
struct Sum {
    #[allow(dead_code, reason = "shown by Debug")]
    of: String,
    whole: (&'static str, f64),
    parts: Vec<(&'static str, f64)>,
}

impl Sum {
    fn holds(&self) -> bool {
        let parts: f64 = self.parts.iter().map(|(_, part)| part).sum();
        self.whole.1.to_bits() == parts.to_bits()
    }
}

/// The sums that do not hold at this moment, each with its terms.
fn imbalances(engine: &Engine) -> Vec<Sum> {
    let (numbers, seen) = (Numbers::of(engine), engine.snapshot());
    wrong(numbers.sums().into_iter().chain(numbers.sums_of_engine(&seen)))
}

fn wrong(sums: impl IntoIterator<Item = Sum>) -> Vec<Sum> {
    sums.into_iter().filter(|sum| !sum.holds()).collect()
}

/// The sums hold at this moment: for engines in paused time, with nothing on its way.
///
/// # Panics
/// With those that do not.
pub fn assert_balanced(engine: &Engine) {
    let wrong = imbalances(engine);
    assert!(wrong.is_empty(), "{wrong:#?} of {:?}", engine.snapshot());
}

/// The sums hold soon. It blocks its thread.
///
/// # Panics
/// With those that do not.
pub fn assert_balances_within(within: Duration, engine: &Engine) {
    if !holds_within(within, || imbalances(engine).is_empty()) {
        assert_balanced(engine);
    }
}

/// The same of an engine that is gone, or about to go: it holds nothing and nobody waits.
///
/// # Panics
/// With those that do not.
pub fn assert_ends_balanced_within(within: Duration, metrics: &Metrics) {
    let imbalances = || wrong(Numbers::read(metrics).sums());
    let is_gone = || !Numbers::read(metrics).has("leasehold_held");
    assert!(holds_within(within, || is_gone() && imbalances().is_empty()), "{:#?}", imbalances());
}

fn number(sample: &Sample) -> f64 {
    match &sample.value {
        Value::Number(number) => *number,
        Value::Distribution(values) => values.count() as f64,
        other => panic!("a number or a distribution, not {other:?}"),
    }
}
