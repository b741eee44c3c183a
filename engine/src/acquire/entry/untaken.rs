//! A grant that its caller does not take, while other callers of this engine wait behind it. Pure.
//!
//! A caller takes its grant when its future is polled. A task may leave the future unpolled for long: it computes, it blocks its
//! thread, or another branch of its `select!` awaits something else. Nothing renews such a grant, and nothing releases it before
//! its deadline. If the task waits for one of the callers behind, all of them wait for that deadline (Oxide Computer Company,
//! "Futurelock", RFD 609, 2025).
//!
//! So the driver of the key looks at a grant once it is 200 ms old (`looks`). If no caller has taken it, and others wait, the
//! engine releases it to the server and asks for the next caller. The caller that was too slow is queued again, at the head,
//! when it is polled. Its next grant may be left twice as long, so a caller that is always polled late gets the lock in the end.
//!
//! If the look itself is late, the process stood still, and its callers with it: they get the same time once more.

use std::{sync::Arc, time::Duration};

use super::{Entry, HeldGrant, looks::Looks};
use crate::{clock::Instant, lease::shared::LeaseCore};

/// A look that is later than this was late because the process stood still.
const LATE_MAX: Duration = Duration::from_millis(50);

/// What a look at the grant says.
#[derive(Debug)]
pub(crate) enum Look {
    /// Release it.
    TakeBack(Arc<LeaseCore>),
    /// Look again at this moment; `None`: not at this grant.
    Wait(Option<Instant>),
}

impl<S> Entry<S> {
    /// Looks at the grant that holds the key. A grant that was taken is looked at too, once: it may be handed off before, to a
    /// caller that does not take it.
    pub(crate) fn look_at_grant(&mut self, now: Instant) -> Look {
        let Some(held) = self.grants.only() else { return Look::Wait(None) };
        let due = self.look_due(held);
        if due > now {
            return Look::Wait(Some(due));
        }
        // A lease that was lost is on its way out of the entry.
        if held.lease.was_taken() || !held.lease.is_live() || !self.is_wanted() {
            return Look::Wait(None);
        }
        if now - due <= LATE_MAX {
            return Look::TakeBack(held.lease.clone());
        }
        Look::Wait(Some(self.looks.look_again(now)))
    }

    /// When the next look at the grant is due. `None`: that moment has passed.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        self.grants.only().map(|held| self.look_due(held)).filter(|look| *look > now)
    }

    fn look_due(&self, held: &HeldGrant) -> Instant {
        self.looks.due(held.lease.granted_at)
    }

    /// A caller gets a grant. `late`: how many of its grants were not taken in time.
    pub(crate) fn begin_looks(&mut self, late: u8) {
        self.looks = Looks::new(late);
    }
}
