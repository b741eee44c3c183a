//! What the judges of semaphores and latches found, each fault with its count. Locks are judged by `windows.rs`.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use leasehold::clock::Instant;

use crate::terminal;

/// The faults of a run.
pub(crate) struct Faults {
    begun: Instant,
    found: Mutex<BTreeMap<&'static str, u64>>,
}

impl Faults {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, found: Mutex::default() }
    }

    /// Counts a fault, and tells the first of its kind.
    pub(crate) fn found(&self, what: &'static str, at: Instant) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let count = found.entry(what).or_default();
        *count += 1;
        if *count == 1 {
            terminal::say(&format!("{:6.1} s  {what}", (at - self.begun).as_secs_f64()));
        }
    }

    /// All faults, with how often each was found.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
