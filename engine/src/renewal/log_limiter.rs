//! Rate-limits a log line to one per 10 s and counts the suppressed events. Pure.

use std::time::Duration;

use crate::clock::Instant;

/// Counts the events since the last log line.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    unlogged: u64,
    quiet_until: Instant,
}

impl LogLimiter {
    /// Adds `more` events. Returns the number of events since the last line when a line is due.
    pub(crate) fn add(&mut self, more: u64, now: Instant) -> Option<u64> {
        self.unlogged += more;
        if self.unlogged == 0 || now < self.quiet_until {
            return None;
        }
        self.quiet_until = now + PAUSE;
        Some(std::mem::take(&mut self.unlogged))
    }
}

const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_tells_of_all() {
        let mut log_limiter = LogLimiter::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let logged =
            [(2, 1), (3, 2), (0, 12), (0, 30), (1, 31)].map(|(more, when)| log_limiter.add(more, at(when)));
        assert_eq!(logged, [Some(2), None, Some(3), None, Some(1)]);
    }
}
