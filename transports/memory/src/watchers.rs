//! The watches, by key. It returns the watches to notify, and the caller notifies them after unlocking.
//!
//! A key is in the map while at least one `Watch` of it exists.

use std::sync::Arc;

use leasehold::{key::LockKey, transport::WatchState};
use tokio::sync::watch;

use crate::by_key::ByKey;

/// The sender side of all watches of one key.
pub(crate) type Watches = watch::Sender<WatchState>;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_key: ByKey<Watches>,
}

impl Watchers {
    /// Adds a watch of `key`. It is in force at once, because no server has to confirm a subscription.
    pub(crate) fn watch(&mut self, key: &Arc<LockKey>) -> watch::Receiver<WatchState> {
        self.by_key.entry(key.clone()).or_insert_with(in_force).subscribe()
    }

    /// Removes the key if its last watch was dropped. Called after a watch was dropped.
    pub(crate) fn forget_unwatched(&mut self, key: &Arc<LockKey>) {
        if self.of(key).is_some_and(|watches| watches.receiver_count() == 0) {
            self.by_key.remove(key);
        }
    }

    /// Returns the watches of `key`, if there are any.
    pub(crate) fn of(&self, key: &Arc<LockKey>) -> Option<&Watches> {
        self.by_key.get(key)
    }

    /// Returns the watches of every key.
    pub(crate) fn all(&self) -> Vec<Watches> {
        self.by_key.values().cloned().collect()
    }

    /// Returns the number of watched keys.
    pub(crate) fn keys(&self) -> usize {
        self.by_key.len()
    }
}

/// Notifies the watches that a hold of their key has ended.
pub(crate) fn notify(watches: &Watches) {
    watches.send_modify(|state| state.notices += 1);
}

/// Counts a gap: the watches may have missed a notice.
pub(crate) fn count_gap(watches: &Watches) {
    watches.send_modify(|state| state.gaps += 1);
}

fn in_force() -> Watches {
    watch::Sender::new(WatchState::starting(true))
}
