use leasehold::{key::LockKey, transport::LanePurpose};

use super::{Fault, Faults, Operation, Rule};

/// Which operations a rule is for. Without conditions: the next one of its kind, once.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before a fault is injected"]
pub struct Matching {
    faults: Faults,
    conditions: Conditions,
}

#[derive(Clone, Debug)]
pub(super) struct Conditions {
    operation: Operation,
    key: Option<String>,
    lane: Option<LanePurpose>,
    first: u64,
    times: u64,
}

impl Matching {
    pub(super) fn new(faults: Faults, operation: Operation) -> Self {
        Self { faults, conditions: Conditions { operation, key: None, lane: None, first: 1, times: 1 } }
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

impl Conditions {
    pub(super) fn apply(&self, purpose: LanePurpose, operation: Operation, keys: &[&LockKey]) -> bool {
        self.operation == operation
            && self.lane.is_none_or(|lane| lane == purpose)
            && keys.iter().any(|key| self.are_about(key))
    }

    pub(super) fn are_about(&self, key: &LockKey) -> bool {
        self.key.as_deref().is_none_or(|name| name == key.name())
    }

    /// Whether the n-th operation is one that the fault happens to, if it is none behind the last.
    pub(super) fn begins_by(&self, n: u64) -> bool {
        n >= self.first
    }

    /// Whether no operation behind the n-th is meant.
    pub(super) fn ends_with(&self, n: u64) -> bool {
        n >= self.first.saturating_add(self.times.saturating_sub(1))
    }
}
