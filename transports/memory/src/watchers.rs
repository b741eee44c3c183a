//! The watches, by key. It returns the watches to notify, and the caller notifies them after unlocking.
//!
//! A key is in the map while at least one `Watch` of it exists.

use std::sync::Arc;

use leasehold::{
    key::LockKey,
    owner::Owner,
    transport::{Counter, WatchState},
};
use tokio::sync::watch;

use crate::by_key::ByKey;

/// What is watched of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The end of holds.
    Holds,
    /// A counter.
    Counter(Counter),
    /// The turn of an owner in the line of a fair lock.
    Turn(Owner),
}

/// The sender side of all watches of one key.
pub(crate) type Watches = watch::Sender<WatchState>;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_key: ByKey<Vec<(Watched, Watches)>>,
}

impl Watchers {
    /// Adds a watch of `key`. It is in force at once, because no server has to confirm a subscription.
    pub(crate) fn watch(&mut self, key: &Arc<LockKey>, watched: Watched) -> watch::Receiver<WatchState> {
        let all = self.by_key.entry(key.clone()).or_default();
        if let Some((_, watches)) = all.iter().find(|(known, _)| *known == watched) {
            return watches.subscribe();
        }
        let watches = in_force();
        let watch = watches.subscribe();
        all.push((watched, watches));
        watch
    }

    /// Removes the key if its last watch was dropped. Called after a watch was dropped.
    pub(crate) fn forget_unwatched(&mut self, key: &Arc<LockKey>) {
        let Some(all) = self.by_key.get_mut(key) else { return };
        all.retain(|(_, watches)| watches.receiver_count() > 0);
        if all.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// Returns the watches for this of `key`, if there are any.
    pub(crate) fn of(&self, key: &Arc<LockKey>, watched: Watched) -> Option<&Watches> {
        let watches = self.by_key.get(key)?.iter().find(|(known, _)| *known == watched);
        watches.map(|(_, watches)| watches)
    }

    /// Returns the watches of every key.
    pub(crate) fn all(&self) -> Vec<Watches> {
        self.by_key.values().flatten().map(|(_, watches)| watches.clone()).collect()
    }

    /// Returns the number of watched keys.
    pub(crate) fn keys(&self) -> usize {
        self.by_key.len()
    }
}

/// Notifies the watches that a hold of their key has ended, or that its counter has changed.
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
