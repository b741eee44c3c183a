//! The watches of the turns of a key's places. One task for each watch passes on what the watch reports.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, task::AbortHandle};

use super::{
    fair_entry::PlaceId,
    watch_cursor::{WatchCursor, WatchDelta},
};
use crate::{inner::Inner, key::LockKey, owner::Owner};

/// The watches of one key. Dropping it ends them.
#[derive(Default)]
pub(super) struct Turns {
    watches: BTreeMap<PlaceId, AbortHandle>,
    heard: Arc<Heard>,
}

/// What was reported and not taken yet: at most one entry for each watch.
#[derive(Default)]
struct Heard {
    of: Mutex<BTreeMap<PlaceId, WatchDelta>>,
    news: Notify,
}

impl Turns {
    /// Watches the turn of a place. Without a lane nothing is watched, and the beats of the place find its turn.
    pub(super) fn listen(&mut self, inner: &Inner, key: &Arc<LockKey>, place: PlaceId, owner: Owner) {
        let Some(lane) = inner.calls.lane() else { return };
        let cursor = WatchCursor::new(lane.watch_turn(key, owner));
        let task = inner.spawn(pass_on(cursor, place, self.heard.clone()));
        if let Some(earlier) = self.watches.insert(place, task) {
            earlier.abort();
        }
    }

    /// Ends the watch of a place.
    pub(super) fn ignore(&mut self, place: PlaceId) {
        if let Some(watch) = self.watches.remove(&place) {
            watch.abort();
            self.heard.lock().remove(&place);
        }
    }

    /// Whether any turn is watched.
    pub(super) fn is_listening(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Waits for news.
    pub(super) async fn changed(&self) {
        self.heard.news.notified().await;
    }

    /// What was reported since this was called last.
    pub(super) fn take(&self) -> BTreeMap<PlaceId, WatchDelta> {
        std::mem::take(&mut self.heard.lock())
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlaceId, WatchDelta>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, place: PlaceId, delta: WatchDelta) {
        let mut of = self.lock();
        let known = of.entry(place).or_default();
        known.notices += delta.notices;
        known.resync |= delta.resync;
        known.gaps |= delta.gaps;
        drop(of);
        self.news.notify_one();
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.watches.values().for_each(AbortHandle::abort);
    }
}

async fn pass_on(mut cursor: WatchCursor, place: PlaceId, heard: Arc<Heard>) {
    loop {
        let delta = cursor.observe();
        if delta.notices > 0 || delta.resync || delta.gaps {
            heard.add(place, delta);
        }
        cursor.changed().await;
    }
}
