//! How an entry handles notices and changes of the topology.

use super::{Cause, Entry, Pace};
use crate::clock::Instant;

impl<S> Entry<S> {
    /// Handles what the key's watch reports: new notices, and whether notices may have been missed before the watch
    /// came in force (again).
    pub(crate) fn handle_notices(&mut self, notices: u64, resync: bool, now: Instant, pace: &Pace) {
        let foreign = self.fairness.take_foreign(notices, now);
        if resync {
            self.fairness.forget_own_notices();
        }
        let wanted = foreign > 0 || (!self.standing_back && (resync || notices > 0));
        if !wanted || self.is_excluded_here() {
            return;
        }
        let cause = if notices > 0 { Cause::Notice } else { Cause::Resync };
        self.follow_up = Some(cause);
        if self.unclear.is_none() {
            self.standing_back = false;
            if notices > 0 {
                self.follow_notice(now, pace);
            } else {
                self.ask_next(now.min(self.next_ask), cause);
            }
        }
    }

    // Other clients may go first. Each notice means another grant of another client, so the pause starts again with it.
    pub(super) fn follow_notice(&mut self, now: Instant, pace: &Pace) {
        let soon = now + self.fairness.delay_after_notice(now, pace.round_trip);
        let pauses_already = self.next_ask > now && matches!(self.cause, Cause::Notice | Cause::Turn);
        self.ask_next(if pauses_already { soon } else { soon.min(self.next_ask) }, Cause::Notice);
    }

    /// The topology has changed: a retry need not wait any longer.
    pub(crate) fn handle_topology(&mut self, now: Instant) {
        if self.unclear.is_some() {
            self.ask_next(now.min(self.next_ask), Cause::Resync);
        }
    }
}
