use leasehold::transport::LanePurpose;

use super::{Fault, Faults, Operation, Rule, conditions::Conditions};

/// The operations to which a rule applies. Without conditions: the next operation of its kind, once.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before a fault is injected"]
pub struct Matching {
    faults: Faults,
    conditions: Conditions,
}

impl Faults {
    /// Starts a rule for `operation`. Without further conditions it applies to the next one, of any key and lane.
    pub fn on(&self, operation: Operation) -> Matching {
        Matching::new(self.clone(), operation)
    }
}

impl Matching {
    fn new(faults: Faults, operation: Operation) -> Self {
        Self { faults, conditions: Conditions::of(operation) }
    }

    /// Only the lock with this name, as the user wrote it, without the prefix. Default: any lock.
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.conditions.key = Some(name.into());
        self
    }

    /// Only lanes of this purpose. Default: any lane.
    pub fn lane(mut self, purpose: LanePurpose) -> Self {
        self.conditions.lane = Some(purpose);
        self
    }

    /// Starts with the n-th matching operation, counted from the injection. Default: 1, the next one.
    pub fn nth(mut self, n: u64) -> Self {
        self.conditions.first = n;
        self
    }

    /// Applies to this many consecutive operations. Default: 1.
    pub fn times(mut self, times: u64) -> Self {
        self.conditions.times = times;
        self
    }

    /// Applies to every operation, until [`Rule::remove`] or [`Faults::clear`].
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// Adds the rule, after the rules that exist already.
    pub fn inject(self, fault: Fault) -> Rule {
        self.faults.inject(self.conditions, fault)
    }
}
