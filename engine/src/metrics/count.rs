//! One number that many threads change.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that many threads change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Adds one. Returns the value before.
    pub(crate) fn add_one(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds one unless the value is `most` already.
    pub(crate) fn add_one_up_to(&self, most: u64) -> bool {
        let up =
            |value: u64| (value < most || i64::try_from(value).is_err()).then_some(value.wrapping_add(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up).is_ok()
    }

    pub(crate) fn sub(&self, by: u64) {
        self.0.fetch_sub(by, Ordering::Relaxed);
    }

    /// The value. A subtraction may be seen before the addition it belongs to; a number below zero is told as zero.
    pub(crate) fn value(&self) -> u64 {
        let value = self.0.load(Ordering::Relaxed);
        if i64::try_from(value).is_ok() { value } else { 0 }
    }
}
