//! The times that an entry needs for its decisions. Pure.

use std::time::Duration;

/// The times that an entry needs for its decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long a caller may be without a definite answer before it gets `Unavailable`.
    pub(crate) unavailable_after: Duration,
    /// How long the answer to an ask may take.
    pub(crate) command_timeout: Duration,
    /// After how long a waiting entry asks without any notice, jitter included.
    pub(crate) safety_poll: Duration,
    /// A number from 0 to 255 that spreads the polls of spin locks.
    pub(crate) jitter: u64,
    /// A recent round trip.
    pub(crate) round_trip: Duration,
    /// How often one grant may be handed off.
    pub(crate) hand_offs_max: u16,
}

/// The number of polls in a row that found the lock held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpinPause(u32);

impl SpinPause {
    /// The pause before the next poll: 1 ms, doubled with each poll, at most 128 ms. `jitter`, from 0 to 255, takes up to
    /// half of it away, so that the polls of several processes spread.
    pub(super) fn next(&mut self, jitter: u64) -> Duration {
        let longest = PAUSE_MIN.saturating_mul(1 << self.0);
        self.0 = (self.0 + 1).min(DOUBLINGS_MAX);
        longest - longest.mul_f64(jitter.min(255) as f64 / 512.0)
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
