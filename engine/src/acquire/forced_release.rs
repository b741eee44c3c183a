//! A release by force that this engine sends: while it is in progress, no grant of its lock is handed off.

use std::sync::Arc;

use crate::{inner::Inner, key::LockKey};

/// Lives from the call until the answer.
pub(crate) struct ForcedRelease {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
}

impl ForcedRelease {
    pub(crate) fn begin(inner: Arc<Inner>, key: Arc<LockKey>) -> Self {
        inner.table.with(&key, |slot| slot.entry.begin_forced_release());
        Self { inner, key }
    }
}

impl Drop for ForcedRelease {
    fn drop(&mut self) {
        self.inner.table.with(&self.key, |slot| slot.entry.end_forced_release());
    }
}
