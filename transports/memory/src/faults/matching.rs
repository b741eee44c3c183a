use leasehold::transport::LanePurpose;

use super::{Fault, Faults, Operation, Rule, conditions::Conditions};

/// Which operations a rule is for. Without conditions: the next one of its kind, once.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before a fault is injected"]
pub struct Matching {
    faults: Faults,
    conditions: Conditions,
}

impl Faults {
    /// Begins a rule for `operation`: the next one, of any key and lane, unless conditions are added.
    pub fn on(&self, operation: Operation) -> Matching {
        Matching::new(self.clone(), operation)
    }
}

impl Matching {
    fn new(faults: Faults, operation: Operation) -> Self {
        Self { faults, conditions: Conditions::of(operation) }
    }

    /// Only of the lock with this name, as the user wrote it, without prefix. Default: any.
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.conditions.key = Some(name.into());
        self
    }

    /// Only over lanes of this purpose. Default: any.
    pub fn lane(mut self, purpose: LanePurpose) -> Self {
        self.conditions.lane = Some(purpose);
        self
    }

    /// Beginning with the n-th operation that matches, counted from now. Default: 1, the next.
    pub fn nth(mut self, n: u64) -> Self {
        self.conditions.first = n;
        self
    }

    /// For this many operations in a row. Default: 1.
    pub fn times(mut self, times: u64) -> Self {
        self.conditions.times = times;
        self
    }

    /// For every operation, until [`Rule::remove`] or [`Faults::clear`].
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// Puts the rule in force, behind those that are in force already.
    pub fn inject(self, fault: Fault) -> Rule {
        self.faults.inject(self.conditions, fault)
    }
}
