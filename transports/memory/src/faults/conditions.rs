//! The operations that a rule applies to. Pure.

use leasehold::{key::LockKey, transport::LanePurpose};

use super::Operation;

/// The conditions of one rule.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    operation: Operation,
    pub(super) key: Option<String>,
    pub(super) lane: Option<LanePurpose>,
    pub(super) first: u64,
    pub(super) times: u64,
}

impl Conditions {
    /// The next operation of this kind, once.
    pub(super) fn of(operation: Operation) -> Self {
        Self { operation, key: None, lane: None, first: 1, times: 1 }
    }

    pub(super) fn apply(&self, purpose: LanePurpose, operation: Operation, keys: &[&LockKey]) -> bool {
        self.operation == operation
            && self.lane.is_none_or(|lane| lane == purpose)
            && keys.iter().any(|key| self.are_about(key))
    }

    pub(super) fn are_about(&self, key: &LockKey) -> bool {
        self.key.as_deref().is_none_or(|name| name == key.name())
    }

    /// Whether the fault applies to the n-th operation, if that is not behind the last one.
    pub(super) fn begins_by(&self, n: u64) -> bool {
        n >= self.first
    }

    /// Whether the fault applies to no operation after the n-th.
    pub(super) fn ends_with(&self, n: u64) -> bool {
        n >= self.first.saturating_add(self.times.saturating_sub(1))
    }
}
