//! The judge of permits: how many of each key's permits the contenders of this process have.
//!
//! A contender counts as a user from the answer to its take until the moment before it gives back, so the sum never
//! exceeds what the server has granted: each excess that is seen is true.

use std::sync::atomic::{AtomicU64, Ordering};

/// The permits in use, key by key.
pub(crate) struct Usage {
    total: u64,
    keys: Vec<AtomicU64>,
}

impl Usage {
    pub(crate) fn new(keys: usize, total: u32) -> Self {
        Self { total: u64::from(total), keys: (0..keys).map(|_| AtomicU64::new(0)).collect() }
    }

    /// These permits were taken. Returns whether all permits in use are within the total.
    #[must_use]
    pub(crate) fn took(&self, key: usize, permits: u32) -> bool {
        let before = self.keys[key].fetch_add(u64::from(permits), Ordering::SeqCst);
        before + u64::from(permits) <= self.total
    }

    /// These permits are about to be given back.
    pub(crate) fn gives(&self, key: usize, permits: u32) {
        self.keys[key].fetch_sub(u64::from(permits), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_permit_above_the_total_is_seen() {
        let usage = Usage::new(2, 3);
        assert!(usage.took(0, 2) && usage.took(0, 1) && usage.took(1, 3));
        assert!(!usage.took(0, 1));
        usage.gives(0, 2);
        usage.gives(0, 1);
        assert!(usage.took(0, 2) && !usage.took(0, 1));
    }
}
