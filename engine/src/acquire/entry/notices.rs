//! What an entry hears: notices, and changes of the way to the servers.

use super::{Cause, Entry, Pace};
use crate::clock::Instant;

impl<S> Entry<S> {
    /// What the watch of the key told: new notices, and whether some may have been missed before it came (back) in force.
    pub(crate) fn handle_notices(&mut self, notices: u64, resync: bool, now: Instant, pace: &Pace) {
        let foreign = self.fairness.take_foreign(notices);
        if resync {
            self.fairness.forget_own_notices();
        }
        let wanted = foreign > 0 || (!self.standing_back && (resync || notices > 0));
        if !wanted || self.local.is_some() {
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

    // Others may go first. Each notice tells of another grant of theirs, so the pause begins anew with it.
    pub(super) fn follow_notice(&mut self, now: Instant, pace: &Pace) {
        let soon = now + self.fairness.delay_after_notice(now, pace.round_trip);
        let pauses_already = self.next_ask > now && matches!(self.cause, Cause::Notice | Cause::Turn);
        self.ask_next(if pauses_already { soon } else { soon.min(self.next_ask) }, Cause::Notice);
    }

    /// The way to the servers has changed: a retry need not wait any longer.
    pub(crate) fn handle_topology(&mut self, now: Instant) {
        if self.unclear.is_some() {
            self.ask_next(now.min(self.next_ask), Cause::Resync);
        }
    }
}
