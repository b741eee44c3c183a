//! The pauses between the polls of a spin lock. Pure.

use std::time::Duration;

use super::{Cause, Entry, Pace};
use crate::{clock::Instant, transport::HoldKind};

/// The number of polls in a row that found the lock held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpinPause(u32);

impl SpinPause {
    /// The pause before the next poll: 1 ms, doubled with each poll, at most 128 ms. `jitter`, from 0 to 255, takes up to
    /// half of it away, so that the polls of several processes spread.
    fn next(&mut self, jitter: u64) -> Duration {
        let longest = PAUSE_MIN.saturating_mul(1 << self.0);
        self.0 = (self.0 + 1).min(DOUBLINGS_MAX);
        longest - longest.mul_f64(jitter.min(255) as f64 / 512.0)
    }
}

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

    /// The caller at the head polls, but the next ask was planned for a caller that waited for notices.
    pub(super) fn hurry_for_spin(&mut self, now: Instant, pace: &Pace) {
        if self.head_spins() && matches!(self.cause, Cause::SafetyPoll | Cause::Expiry) && now < self.next_ask
        {
            self.poll_next(now, pace);
        }
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(1);
/// 1 ms doubled seven times is 128 ms.
const DOUBLINGS_MAX: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_128_ms() {
        let mut pause = SpinPause::default();
        let pauses: Vec<_> = (0..10).map(|_| pause.next(0).as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
    }

    #[test]
    fn jitter_takes_less_than_half_away() {
        for jitter in 0..=255 {
            let mut pause = SpinPause(7);
            let pause = pause.next(jitter);
            assert!(pause > Duration::from_millis(64) && pause <= Duration::from_millis(128), "{pause:?}");
        }
    }
}
