//! Detects dead connections that do not report an error: a paused server, a pulled cable, a forgotten NAT entry.
//!
//! Only *received* bytes count: writes to a dead connection succeed until a buffer is full. The server is probed when a request waits and nothing was received for 200 ms, or when nothing was
//! received for one second. Two probes in a row without an answer, and without any other byte received, end the
//! connection. So a server that is busy for less than 600 ms keeps its connection. Bytes of a reply that is not whole after ten
//! seconds do not count.
//!
//! A server may be remote, so each of these times is at least twice the shortest round trip of the connection.

use std::time::Duration;

use leasehold::clock::{Clock, Instant};

use super::{link::Failure, traffic::Traffic};

/// A connection that can send a cheap request to its server.
pub(crate) trait Probe: Sync {
    fn traffic(&self) -> &Traffic;
    fn probe(&self, timeout: Duration) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Watches the connection. Returns when the connection should be given up.
///
/// # Cancel safety
/// Dropping the future ends the watch.
pub(crate) async fn watch_over(connection: &impl Probe, clock: Clock) {
    let traffic = connection.traffic();
    let mut missed = 0;
    while missed < MISSED_MAX {
        let timeouts = Timeouts::for_round_trips_of(traffic.round_trip().unwrap_or_default());
        if missed == 0 {
            tokio::time::sleep(TICK).await;
            if !is_due(traffic, clock, timeouts) {
                continue;
            }
        }
        let received_before = traffic.last_received();
        missed = match connection.probe(timeouts.probe).await {
            // A refusal is an answer too.
            Ok(()) | Err(Failure::Refused(_)) => 0,
            Err(Failure::TimedOut) if has_received(traffic, clock, received_before) => 0,
            Err(Failure::TimedOut) => missed + 1,
            Err(Failure::Lost(_)) => return,
        };
    }
}

fn has_received(traffic: &Traffic, clock: Clock, since: Instant) -> bool {
    traffic.last_received() > since && clock.now() - traffic.last_whole() < REPLY_MAX
}

fn is_due(traffic: &Traffic, clock: Clock, timeouts: Timeouts) -> bool {
    let quiet = clock.now() - traffic.last_received();
    quiet >= QUIET_IDLE || (traffic.is_waiting() && quiet >= timeouts.quiet_waiting)
}

/// How long nothing may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timeouts {
    /// Before the server is probed, while a request waits for its reply.
    quiet_waiting: Duration,
    /// Before a probe counts as unanswered.
    probe: Duration,
}

impl Timeouts {
    fn for_round_trips_of(round_trip: Duration) -> Self {
        let least = round_trip.saturating_mul(2);
        Self { quiet_waiting: QUIET_WAITING.max(least), probe: PROBE_TIMEOUT.max(least) }
    }
}

/// The timeout of a probe, and of requests that no caller waits for, if the server is near.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(300);
const MISSED_MAX: u32 = 2;
const TICK: Duration = Duration::from_millis(100);
const QUIET_IDLE: Duration = Duration::from_secs(1);
const QUIET_WAITING: Duration = Duration::from_millis(200);
/// How long a reply may take from its first byte to its last.
const REPLY_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_the_distance_of_the_server() {
        let millis = |round_trip_ms| {
            let timeouts = Timeouts::for_round_trips_of(Duration::from_millis(round_trip_ms));
            (timeouts.quiet_waiting.as_millis(), timeouts.probe.as_millis())
        };
        assert_eq!(
            [0, 100, 150, 320, 440].map(millis),
            [(200, 300), (200, 300), (300, 300), (640, 640), (880, 880)]
        );
    }

    /// A server that answers no probe, and says a byte each 100 ms meanwhile.
    struct Drip {
        traffic: std::sync::Arc<Traffic>,
        /// Whether each byte ends a reply.
        is_whole: bool,
    }

    impl Probe for Drip {
        fn traffic(&self) -> &Traffic {
            &self.traffic
        }

        async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
            for _ in 0..timeout.as_millis() / 100 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.traffic.handle_received(self.is_whole);
            }
            Err(Failure::TimedOut)
        }
    }

    async fn watched_for(is_whole: bool, longest: Duration) -> Option<Duration> {
        let drip = Drip { traffic: Traffic::new(Clock::Tokio), is_whole };
        let begun = Clock::Tokio.now();
        let watched = tokio::time::timeout(longest, watch_over(&drip, Clock::Tokio)).await;
        watched.ok().map(|()| Clock::Tokio.now() - begun)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_drips_ends_its_connection_after_ten_seconds() {
        let lasted = watched_for(false, Duration::from_secs(3600)).await.expect("it ends");
        assert!((REPLY_MAX..REPLY_MAX + Duration::from_secs(2)).contains(&lasted), "{lasted:?}");
        assert_eq!(watched_for(true, Duration::from_secs(3600)).await, None, "other replies came");
    }
}
