//! Decides when an ongoing problem is logged as a warning again. Pure.

use std::time::Duration;

use leasehold::clock::Instant;

/// Due at the first occurrence, and every 10 s after that, until the problem is over.
#[derive(Debug, Default)]
pub(crate) struct WarnInterval {
    warned: Option<Instant>,
}

impl WarnInterval {
    /// Takes in an occurrence at `now`. Returns whether to log a warning.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.warned.is_none_or(|warned| now - warned >= PERIOD);
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }

    /// Ends the problem. The next occurrence is logged at once.
    pub(crate) fn reset(&mut self) {
        self.warned = None;
    }
}

const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_at_first_every_10_s_and_after_an_end() {
        let mut warn_interval = WarnInterval::default();
        let mut due = |seconds: u64| warn_interval.is_due(Instant::from_nanos(seconds * 1_000_000_000));
        let seconds: Vec<_> = (0..25).filter(|second| due(*second)).collect();
        assert_eq!(seconds, [0, 10, 20]);
        warn_interval.reset();
        assert!(warn_interval.is_due(Instant::from_nanos(25_000_000_000)));
    }
}
