//! How long to wait before the next attempt to connect. Pure.

use std::time::Duration;

use leasehold::clock::Instant;

/// Doubles from 20 ms to 500 ms, with up to half as much again on top, so that clients do not come back as one.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// After a connection that stood for `stood`: one that stood for a while is tried again at once, one that breaks
    /// at once again and again is not.
    pub(crate) fn after(stood: Duration) -> Self {
        Self { next: if stood >= STABLE { Duration::ZERO } else { FIRST } }
    }

    /// Nothing was tried yet.
    pub(crate) fn at_once() -> Self {
        Self { next: Duration::ZERO }
    }

    /// After a refusal that only an operator can end.
    pub(crate) fn slow() -> Self {
        Self { next: SLOW }
    }

    /// The next wait. `now` only serves as a source of jitter: its low digits differ between clients.
    pub(crate) fn next_delay(&mut self, now: Instant) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(FIRST, LONGEST.max(delay));
        let half_nanos = u64::try_from(delay.as_nanos() / 2).unwrap_or(u64::MAX);
        delay + Duration::from_nanos(now.as_nanos() % half_nanos.max(1))
    }
}

const STABLE: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_bound_with_jitter() {
        let mut backoff = Backoff::after(Duration::from_secs(9));
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay(Instant::from_nanos(0)).as_millis()).collect();
        assert_eq!(delays, [0, 20, 40, 80, 160, 320, 500, 500]);
        let jittered = backoff.next_delay(Instant::from_nanos(u64::MAX));
        assert!(jittered >= LONGEST && jittered < LONGEST * 3 / 2);
        assert_eq!(Backoff::after(Duration::ZERO).next_delay(Instant::from_nanos(0)), FIRST);
    }
}
