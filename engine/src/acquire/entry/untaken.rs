//! A grant that its caller does not take, while other callers of this engine wait behind it. Pure.
//!
//! A caller takes its grant when its future is polled. A task may leave the future unpolled for long: it computes, it blocks its
//! thread, or another branch of its `select!` awaits something else. Nothing renews such a grant, and nothing releases it before
//! its deadline. If the task waits for one of the callers behind, all of them wait for that deadline (Oxide Computer Company,
//! "Futurelock", RFD 609, 2025).
//!
//! So the driver of the key looks at a grant once it is [`UNTAKEN_MAX`] old. If no caller has taken it, and others wait, the
//! engine releases it to the server and asks for the next caller. The caller that was too slow is queued again, at the head,
//! when it is polled.
//!
//! A runtime with too much work may poll every caller later than that. So each grant in a row that was not taken doubles
//! the time for the next one.

use std::{sync::Arc, time::Duration};

use super::{Entry, HeldGrant};
use crate::{clock::Instant, lease::shared::LeaseCore};

/// How long a caller may leave its grant while others wait behind it. A grant is handed off for half of this time, so one
/// look after the server's grant is enough for most keys.
pub(crate) const UNTAKEN_MAX: Duration = Duration::from_millis(200);
/// 200 ms doubled seven times is 25.6 s.
const DOUBLINGS_MAX: u8 = 7;

impl<S> Entry<S> {
    /// The grant that holds the key, if callers wait behind it and it should have been taken by now.
    pub(crate) fn overdue_grant(&self, now: Instant) -> Option<&Arc<LeaseCore>> {
        let held = self.grants.only().filter(|held| self.take_by(held) <= now)?;
        (self.is_wanted() && !held.lease.was_taken()).then_some(&held.lease)
    }

    /// When the grant that holds the key should have been taken. `None`: that moment has passed. A grant that was taken
    /// has such a moment too, because it may be handed off before, to a caller that does not take it.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        self.grants.only().map(|held| self.take_by(held)).filter(|look| *look > now)
    }

    fn take_by(&self, held: &HeldGrant) -> Instant {
        held.lease.granted_at + UNTAKEN_MAX.saturating_mul(1 << self.untaken_in_a_row.min(DOUBLINGS_MAX))
    }

    /// Ends a grant that no caller has taken; its release is about to be sent. `false`: a caller has taken it, or it has
    /// ended.
    pub(crate) fn end_untaken(&mut self, lease: &LeaseCore) -> bool {
        let ends = lease.end_untaken();
        self.untaken_in_a_row = self.untaken_in_a_row.saturating_add(u8::from(ends));
        ends
    }

    /// A lease of this engine ends.
    pub(super) fn note_end(&mut self, lease: &LeaseCore) {
        if lease.was_taken() {
            self.untaken_in_a_row = 0;
        }
    }
}
