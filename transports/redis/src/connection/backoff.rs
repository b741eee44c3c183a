//! The delay before the next attempt to connect. Pure.

use std::time::Duration;

use leasehold::clock::Instant;

/// A delay that doubles from 20 ms to 500 ms, plus jitter of up to half of it, so that clients do not reconnect all
/// at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
    jitter_least: Duration,
}

impl Backoff {
    /// The backoff after a connection that lasted for `lasted`. After a connection of at least `STABLE` the first
    /// attempt comes within 20 ms. After a shorter one it comes later, so connections that keep breaking at once
    /// are not retried without a delay.
    pub(crate) fn after(lasted: Duration) -> Self {
        let next = if lasted >= STABLE { Duration::ZERO } else { FIRST };
        // The cause may have ended the connections of all clients at this moment, so the jitter is at least
        // `FIRST`.
        Self { next, longest: LONGEST, jitter_least: FIRST }
    }

    /// The backoff before the first attempt: no delay.
    pub(crate) fn at_once() -> Self {
        Self { next: Duration::ZERO, longest: LONGEST, jitter_least: Duration::ZERO }
    }

    /// The backoff after a refusal that only an operator can end.
    pub(crate) fn slow() -> Self {
        Self { next: SLOW, longest: SLOW, jitter_least: Duration::ZERO }
    }

    /// The backoff after `ends` connections in a row that ended because the cluster is down. `ends` is at least 1.
    pub(crate) fn cluster_down(ends: u32) -> Self {
        let next = LONGEST.saturating_mul(1_u32.checked_shl(ends - 1).unwrap_or(u32::MAX)).min(DOWN_LONGEST);
        Self { next, longest: DOWN_LONGEST, jitter_least: Duration::ZERO }
    }

    /// Records that this attempt was refused until an operator acts. The following delays may grow to that of
    /// [`slow`](Self::slow).
    pub(crate) fn refused(&mut self) {
        self.longest = SLOW;
    }

    /// Returns the next delay. `now` is only a source of jitter: its low digits differ between clients.
    pub(crate) fn next_delay(&mut self, now: Instant) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(FIRST, self.longest.max(FIRST));
        let most = (delay / 2).max(std::mem::take(&mut self.jitter_least));
        delay + jitter(now, most)
    }
}

/// Returns the number of connections in a row that ended because the cluster is down: `before`, plus the last one,
/// which lasted for `lasted`. A connection that lasted longer than any delay was made while the cluster was up. Its
/// end begins another outage, so the count starts again at 1.
pub(crate) fn downs_in_a_row(before: u32, lasted: Duration) -> u32 {
    if lasted > SLOW { 1 } else { before.saturating_add(1) }
}

/// Returns a jitter below `most`. The clocks of two processes on one machine are close to each other, so their
/// digits are scattered.
fn jitter(now: Instant, most: Duration) -> Duration {
    let most_nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
    let scattered = now.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Duration::from_nanos((scattered ^ (scattered >> 32)) % most_nanos)
}

/// A connection that lasts this long was usable.
const STABLE: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_secs(5);
/// With the jitter of half of it, work continues within 3 s after the end of an outage (promise L5).
const DOWN_LONGEST: Duration = Duration::from_secs(2);

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

    #[test]
    fn clients_that_lose_their_connections_together_come_back_spread_over_20_ms() {
        let first = |nanos| Backoff::after(Duration::from_secs(9)).next_delay(Instant::from_nanos(nanos));
        // The moments are 1 µs apart, as for processes on one machine.
        let mut delays: Vec<_> = (0..1_000).map(|n| first(1_000_000_000 + n * 1_000)).collect();
        delays.sort();
        assert!(delays.iter().all(|delay| *delay < FIRST));
        assert!(
            delays[100] < FIRST / 5 && delays[900] > FIRST * 4 / 5,
            "{:?} {:?}",
            delays[100],
            delays[900]
        );
        assert_eq!(Backoff::at_once().next_delay(Instant::from_nanos(u64::MAX)), Duration::ZERO);
    }

    #[test]
    fn another_outage_of_a_cluster_begins_with_the_shortest_delay() {
        let seconds = Duration::from_secs;
        let row = [1, 0, 2, 5, 86_400, 3].map(seconds);
        let downs = row.iter().scan(0, |downs, lasted| {
            *downs = downs_in_a_row(*downs, *lasted);
            Some(*downs)
        });
        assert_eq!(downs.collect::<Vec<_>>(), [1, 2, 3, 4, 1, 2]);
        assert_eq!(downs_in_a_row(u32::MAX, seconds(0)), u32::MAX);
    }

    #[test]
    fn l5_a_cluster_that_is_down_is_tried_up_to_every_2_s_a_refusal_for_good_every_5_s() {
        let millis = |mut backoff: Backoff| -> Vec<_> {
            (0..6).map(|_| backoff.next_delay(Instant::from_nanos(0)).as_millis()).collect()
        };
        assert_eq!(millis(Backoff::cluster_down(1)), [500, 1_000, 2_000, 2_000, 2_000, 2_000]);
        assert_eq!(millis(Backoff::cluster_down(3)), [2_000; 6]);
        assert_eq!(millis(Backoff::cluster_down(40))[0], 2_000);
        let mut refused = Backoff::after(Duration::from_secs(9));
        let delays: Vec<_> = (0..12)
            .map(|_| {
                refused.refused();
                refused.next_delay(Instant::from_nanos(0)).as_millis()
            })
            .collect();
        assert_eq!(delays, [0, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000, 5_000]);
    }
}
