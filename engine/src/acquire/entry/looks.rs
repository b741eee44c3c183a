//! When to look at a grant that its caller may not take. Pure.

use std::time::Duration;

use crate::clock::Instant;

/// How long a caller may leave its first grant while others wait behind it.
const UNTAKEN_MAX: Duration = Duration::from_millis(200);
/// 200 ms doubled seven times is 25.6 s.
const DOUBLINGS_MAX: u8 = 7;

/// When to look at the present grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looks {
    /// How many grants of its caller were not taken in time.
    late: u8,
    /// Not before this moment, because the first look was late.
    again: Instant,
}

impl Looks {
    /// For a grant of a caller that failed to take this number of grants in time.
    pub(super) fn new(late: u8) -> Self {
        Self { late, again: Instant::default() }
    }

    /// When the look at a grant of this moment is due.
    pub(super) fn due(self, granted_at: Instant) -> Instant {
        self.again.max(granted_at + self.patience())
    }

    /// The look was late. Returns when the next one is due.
    pub(super) fn look_again(&mut self, now: Instant) -> Instant {
        self.again = now + self.patience();
        self.again
    }

    fn patience(self) -> Duration {
        UNTAKEN_MAX.saturating_mul(1 << self.late.min(DOUBLINGS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_grant_that_was_not_taken_doubles_the_time_up_to_25_6_s() {
        let waits = [0, 1, 2, 7, 8, u8::MAX].map(|late| Looks::new(late).due(Instant::default()).as_nanos());
        assert_eq!(waits, [200, 400, 800, 25_600, 25_600, 25_600].map(|ms: u64| ms * 1_000_000));
    }

    #[test]
    fn a_late_look_gives_the_same_time_once_more() {
        let (mut looks, now) = (Looks::new(1), Instant::from_nanos(5_000_000_000));
        let again = looks.look_again(now);
        assert_eq!((again - now, looks.due(Instant::default())), (2 * UNTAKEN_MAX, again));
    }
}
