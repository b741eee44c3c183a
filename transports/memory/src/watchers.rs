//! Who watches which key. It hands out what is to be notified; the caller notifies after unlocking.
//!
//! A key is in here while at least one `Watch` of it lives.

use std::sync::Arc;

use leasehold::{key::LockKey, transport::WatchState};
use tokio::sync::watch;

use crate::table::ByKey;

/// The watches of one key, as the side that notifies sees them.
pub(crate) type Watches = watch::Sender<WatchState>;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_key: ByKey<Watches>,
}

impl Watchers {
    /// One more watch of `key`, in force at once: there is no subscription that a server would have to confirm.
    pub(crate) fn watch(&mut self, key: &Arc<LockKey>) -> watch::Receiver<WatchState> {
        self.by_key.entry(key.clone()).or_insert_with(in_force).subscribe()
    }

    /// To be called after a watch was dropped: forgets the key if that was the last.
    pub(crate) fn forget_unwatched(&mut self, key: &Arc<LockKey>) {
        if self.of(key).is_some_and(|watches| watches.receiver_count() == 0) {
            self.by_key.remove(key);
        }
    }

    /// The watches of `key`, if there are any.
    pub(crate) fn of(&self, key: &Arc<LockKey>) -> Option<&Watches> {
        self.by_key.get(key)
    }

    /// The watches of every key.
    pub(crate) fn all(&self) -> Vec<Watches> {
        self.by_key.values().cloned().collect()
    }

    /// How many keys are watched.
    pub(crate) fn keys(&self) -> usize {
        self.by_key.len()
    }
}

/// Tells the watches that a hold of their key ended.
pub(crate) fn notify(watches: &Watches) {
    watches.send_modify(|state| state.notices += 1);
}

/// Tells the watches that they may have missed a notice.
pub(crate) fn count_gap(watches: &Watches) {
    watches.send_modify(|state| state.gaps += 1);
}

fn in_force() -> Watches {
    watch::Sender::new(WatchState { in_force: true, ..WatchState::default() })
}
