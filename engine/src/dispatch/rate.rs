//! A limit per window of time. Pure.

use crate::clock::Instant;

/// At most [`PER_WINDOW`] in each window of 10 ms: 5,000 per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    window: u64,
    used: usize,
}

impl Rate {
    /// Counts one more, if the window of this moment has one left.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        self.turn(now);
        let admits = self.used < PER_WINDOW;
        self.used += usize::from(admits);
        admits
    }

    /// The first moment from `now` on at which [`admit`](Self::admit) returns `true`.
    pub(crate) fn next(&mut self, now: Instant) -> Instant {
        self.turn(now);
        if self.used < PER_WINDOW { now } else { Instant::from_nanos((self.window + 1) * WINDOW_NANOS) }
    }

    fn turn(&mut self, now: Instant) {
        let window = now.as_nanos() / WINDOW_NANOS;
        if window != self.window {
            *self = Self { window, used: 0 };
        }
    }
}

pub(crate) const PER_WINDOW: usize = 50;
const WINDOW_NANOS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn each_window_of_10_ms_has_50() {
        let mut rate = Rate::default();
        for window in [1000, 1010, 1030] {
            assert_eq!((0..1000).filter(|_| rate.admit(at(window + 3))).count(), 50);
            assert_eq!(rate.next(at(window + 9)), at(window + 10));
        }
        assert_eq!(rate.next(at(1040)), at(1040));
    }
}
