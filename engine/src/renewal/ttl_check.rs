//! The remaining ttl that a renewal should find on the server, computed from the last confirmed command. Pure.
//!
//! Another ttl means that another client changed the lock or that the server's clock stepped (promise S12).

use std::time::Duration;

use crate::{
    clock::Instant,
    lease::{shared::LeaseCore, state::margin},
    span::Span,
};

/// The last confirmed command of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TtlExpectation {
    /// When the command was sent.
    pub(crate) sent: Instant,
    /// When the answer was received. The server executed the command between `sent` and `received`.
    pub(crate) received: Instant,
    /// The ttl in force after the command.
    ttl: Span,
    /// The largest ttl of the sends since then that were not answered. Each of them may have been executed.
    unanswered: Span,
}

impl TtlExpectation {
    pub(crate) fn new(sent: Instant, received: Instant, ttl: Duration) -> Self {
        Self { sent, received, ttl: ttl.into(), unanswered: Span::default() }
    }

    /// The expectation after a renewal that asked for `ttl` and found `found`. The larger of the two is in force,
    /// because a renewal never shortens a hold.
    pub(crate) fn after(ttl: Duration, found: Duration, sent: Instant, received: Instant) -> Self {
        let in_force = if found == Duration::MAX { ttl } else { ttl.max(found) };
        Self::new(sent, received, in_force)
    }

    /// The expectation for a lease whose last confirmed command is no longer known: the latest command that the lease's
    /// deadline allows.
    pub(crate) fn adopted(lease: &LeaseCore, now: Instant) -> Self {
        let ttl = lease.ttl();
        let sent = lease.deadline().before(ttl.saturating_sub(margin(ttl)));
        Self { unanswered: ttl.into(), ..Self::new(sent.min(now), now, ttl) }
    }

    pub(crate) fn note_unanswered(&mut self, ttl: Duration) {
        self.unanswered = self.unanswered.max(ttl.into());
    }

    /// Whether a renewal that was sent at `sent` and answered at `received` may find this ttl. Gives the same result as
    /// [`Self::expected`], but with two sums, because almost every renewal asks only this.
    pub(crate) fn expects(&self, found: Duration, sent: Instant, received: Instant) -> bool {
        let ttl = self.ttl.get();
        let (slack, found) = (margin(ttl), found.min(FOUND_MAX));
        received + found + slack >= self.sent + ttl
            && (sent + found <= self.received + ttl + slack || found <= self.unanswered.get() + slack)
    }

    /// The smallest and the largest ttl that a renewal may find if it was sent at `sent` and answered at `received`.
    pub(crate) fn expected(&self, sent: Instant, received: Instant) -> (Duration, Duration) {
        let (ttl, unanswered) = (self.ttl.get(), self.unanswered.get());
        let slack = margin(ttl);
        let least = ttl.saturating_sub(received - self.sent).saturating_sub(slack);
        let most = ttl.saturating_sub(sent - self.received).max(unanswered).saturating_add(slack);
        (least, most)
    }
}

/// Far above any ttl. Sums with this value do not reach the largest `Instant`.
const FOUND_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn s12_a_healthy_renewal_is_expected_and_a_step_beyond_the_margin_is_not() {
        let baseline = TtlExpectation::new(at(0), at(10), Duration::from_secs(30));
        let (least, most) = baseline.expected(at(10_000), at(10_020));
        assert!(least <= Duration::from_millis(19_980) && Duration::from_millis(20_010) <= most);
        assert!(least > Duration::from_secs(18) && most < Duration::from_secs(22));
    }

    #[test]
    fn s12_a_send_without_an_answer_widens_the_upper_bound_only() {
        let mut baseline = TtlExpectation::new(at(0), at(10), Duration::from_secs(10));
        let before = baseline.expected(at(5_000), at(5_010));
        baseline.note_unanswered(Duration::from_secs(10));
        let after = baseline.expected(at(5_000), at(5_010));
        assert_eq!((before.0, Duration::from_millis(10_500)), (after.0, after.1));
    }

    proptest! {
        #[test]
        fn s12_the_two_sums_say_what_the_range_says(
            times in (0..100_000u64, 0..5_000u64, 0..200_000u64, 0..5_000u64),
            ttl in 1_000..60_000u64, unanswered in 0..60_000u64, found in 0..130_000u64,
        ) {
            let (sent, took, later, took_later) = times;
            let ms = Duration::from_millis;
            let mut baseline = TtlExpectation::new(at(sent), at(sent + took), ms(ttl));
            baseline.note_unanswered(ms(unanswered));
            let (asked, answered) = (at(sent + took + later), at(sent + took + later + took_later));
            let (least, most) = baseline.expected(asked, answered);
            prop_assert_eq!(baseline.expects(ms(found), asked, answered), (least..=most).contains(&ms(found)));
        }
    }
}
