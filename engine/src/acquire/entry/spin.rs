//! The callers of a spin lock: they poll, and no notice is wanted for them. Pure.

use super::{Cause, Entry, Pace};
use crate::{clock::Instant, transport::HoldKind};

impl<S> Entry<S> {
    /// Whether the caller at the head wants a spin lock. Such a caller polls and wants no notices.
    pub(super) fn head_spins(&self) -> bool {
        self.callers.head().is_some_and(|head| head.terms.kind == HoldKind::Spin)
    }

    /// The lock is held, and the caller at the head polls.
    pub(super) fn poll_next(&mut self, now: Instant, pace: &Pace) {
        let pause = self.spin_pause.next(pace.jitter);
        self.ask_next(now + pause, Cause::Poll);
    }

    /// The next ask is not due. If the caller at the head polls, an ask that was planned for a caller that waited for
    /// notices is put forward.
    pub(super) fn hurry_for_spin(&mut self, now: Instant, pace: &Pace) {
        if self.head_spins() && matches!(self.cause, Cause::SafetyPoll | Cause::Expiry) {
            self.poll_next(now, pace);
        }
    }
}
