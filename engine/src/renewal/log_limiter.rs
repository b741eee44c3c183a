//! Rate-limits a log line to one per 10 s and counts the suppressed events. Pure.

use std::time::Duration;

use crate::clock::Instant;

/// Counts the events since the last log line.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    untold: u64,
    quiet_until: Instant,
}

impl LogLimiter {
    /// Adds `more` events. Returns the number of events since the last line when a line is due.
    pub(crate) fn add(&mut self, more: u64, now: Instant) -> Option<u64> {
        self.untold += more;
        if self.untold == 0 || now < self.quiet_until {
            return None;
        }
        self.quiet_until = now + PAUSE;
        Some(std::mem::take(&mut self.untold))
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
        let said =
            [(2, 1), (3, 2), (0, 12), (0, 30), (1, 31)].map(|(more, when)| log_limiter.add(more, at(when)));
        assert_eq!(said, [Some(2), None, Some(3), None, Some(1)]);
    }
}
