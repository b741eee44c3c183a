//! Whether the server still has the hold of this engine for which callers of this engine wait. Pure.
//!
//! Another client can delete the key. The lease learns of that at its next renewal, and a lease that is not renewed at its
//! deadline. Meanwhile the lock is free, and callers of other engines get it. So callers of this engine must not wait that long.
//!
//! The driver asks for the lock once the server has said nothing of it for a safety poll, with an owner of its own. "Held" says
//! nothing new. A grant proves that the hold is gone: the lease is lost, and the grant goes to the caller at the head. An
//! unanswered ask is repeated with the same owner, as every ask. A grant is handed off only while it is younger than a safety
//! poll, so no hand-off is lost by this.

use super::{Entry, HeldGrant, Pace};
use crate::clock::Instant;

impl<S> Entry<S> {
    /// An ask for the key was sent at this moment.
    pub(crate) fn note_asked(&mut self, sent: Instant) {
        self.asked_at = self.asked_at.max(sent);
    }

    /// When the server is asked next whether it still has the holds of this engine.
    pub(super) fn next_confirm(&self, now: Instant, pace: &Pace) -> Instant {
        let known = self.grants.iter().map(|held| known_at(held, now)).fold(self.asked_at, Instant::max);
        known + pace.safety_poll
    }

    pub(super) fn is_confirm_due(&self, now: Instant, pace: &Pace) -> bool {
        self.next_confirm(now, pace) <= now
    }
}

// When the server was last known to have the hold. A manual renewal may ask for more than the ttl. Then the moment of that
// renewal is not known here.
fn known_at(held: &HeldGrant, now: Instant) -> Instant {
    let (granted_at, confirmed) = (held.lease.granted_at, held.lease.sent());
    if confirmed <= now { granted_at.max(confirmed) } else { granted_at }
}
