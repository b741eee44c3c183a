//! When a caller that waits for a quorum gives up, and with which error. Pure.

use std::time::Duration;

use crate::{clock::Instant, error::AcquireError, transport::TransportError};

/// The patience of one call.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    joined: Instant,
    until: Option<Instant>,
    unavailable_after: Duration,
    answered_at: Instant,
    was_held: bool,
    last_error: Option<TransportError>,
}

impl Patience {
    /// A call made at `joined` that waits until `until`, and without a limit no longer than `unavailable_after`
    /// without answers of a majority.
    pub(super) fn new(joined: Instant, until: Option<Instant>, unavailable_after: Duration) -> Self {
        Self { joined, until, unavailable_after, answered_at: joined, was_held: false, last_error: None }
    }

    /// Takes in that a majority answered, and that the lock is held.
    pub(super) fn note_held(&mut self, now: Instant) {
        (self.answered_at, self.was_held) = (now, true);
    }

    /// Takes in that no majority answered.
    pub(super) fn note_silent(&mut self, last_error: Option<TransportError>) {
        self.last_error = last_error.or(self.last_error.take());
    }

    /// The error of a caller that gives up now. `None`: the caller goes on.
    pub(super) fn give_up(&self, now: Instant) -> Option<AcquireError> {
        let is_over = self.until.is_some_and(|until| now >= until);
        let is_silent = now - self.answered_at >= self.unavailable_after;
        match is_over {
            true if self.was_held => Some(AcquireError::TimedOut { waited: now - self.joined }),
            true => Some(self.unavailable(now - self.joined)),
            false if is_silent => Some(self.unavailable(now - self.answered_at)),
            false => None,
        }
    }

    /// The error of a caller that tries once and got no answers of a majority.
    pub(super) fn unavailable(&self, after: Duration) -> AcquireError {
        AcquireError::Unavailable { after, last_error: self.last_error.clone() }
    }

    /// The end of a pause that would last until `moment`.
    pub(super) fn cap(&self, moment: Instant) -> Instant {
        self.until.map_or(moment, |until| until.min(moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_wait_that_is_over_is_timed_out_only_if_the_lock_was_known_to_be_held() {
        let mut patience = Patience::new(at(0), Some(at(5)), Duration::from_secs(10));
        assert!(patience.give_up(at(4)).is_none());
        assert!(matches!(patience.give_up(at(5)), Some(AcquireError::Unavailable { .. })));
        patience.note_held(at(3));
        assert!(
            matches!(patience.give_up(at(5)), Some(AcquireError::TimedOut { waited }) if waited.as_secs() == 5)
        );
        assert_eq!((patience.cap(at(9)), patience.cap(at(2))), (at(5), at(2)));
    }

    #[test]
    fn without_a_wait_it_is_unavailable_after_that_time_without_a_majority() {
        let mut patience = Patience::new(at(0), None, Duration::from_secs(10));
        patience.note_held(at(4));
        patience.note_silent(None);
        assert!(patience.give_up(at(13)).is_none());
        let told = patience.give_up(at(14));
        assert!(matches!(told, Some(AcquireError::Unavailable { after, .. }) if after.as_secs() == 10));
    }
}
