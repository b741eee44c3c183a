//! The notices of the members that refused: a caller that pauses begins again when one of them is released.

use super::race::first_of;
use crate::{
    Lock,
    transport::{BoxFuture, Watch},
};

/// The watches of one call. A member is watched from its first refusal on.
#[derive(Default)]
pub(super) struct Notices {
    watches: Vec<(usize, Watch)>,
}

impl Notices {
    /// Begins an attempt: what comes from now on is a notice.
    pub(super) fn observe(&mut self) {
        for (_, watch) in &mut self.watches {
            watch.observe();
        }
    }

    /// Watches these members too. A new watch that comes into force ends a pause as well: an earlier notice may have
    /// been missed.
    pub(super) fn watch(&mut self, members: &[Lock], refused: &[usize]) {
        for place in refused {
            if self.watches.iter().any(|(watched, _)| watched == place) {
                continue;
            }
            let lane =
                members.get(*place).and_then(|lock| lock.engine().calls.lane().zip(lock.lock_key().ok()));
            let watch = lane.map(|(lane, key)| lane.watch(&key));
            self.watches.extend(watch.map(|watch| (*place, watch)));
        }
    }

    /// Waits for a notice of one of these members that was not observed.
    ///
    /// # Cancel safety
    /// Dropping the future loses no notice.
    pub(super) async fn any_of(&mut self, refused: &[usize]) {
        let watched = self.watches.iter_mut().filter(|(place, _)| refused.contains(place));
        let mut notices: Vec<BoxFuture<'_, ()>> =
            watched.map(|(_, watch)| Box::pin(watch.changed()) as BoxFuture<'_, ()>).collect();
        first_of(&mut notices).await;
    }
}
