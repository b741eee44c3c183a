//! Notices a connection that is dead without saying so: a stopped server, a pulled cable, a forgotten NAT entry.
//!
//! fred's own detection is reset by every write, so it never fires on a busy connection. Here only what is *received*
//! counts. While a caller waits for a reply and nothing comes, or when nothing was heard for a second, the server is
//! asked; two questions in a row without an answer, and without anything else received meanwhile, are the end.
//! So a server that is merely busy for less than 600 ms is left alone.
//!
//! A server may be far: each time is at least twice the shortest round trip of the connection.

use std::time::Duration;

use leasehold::clock::Clock;

use crate::connection::link::{Failure, Link};

/// Asks the server for anything.
pub(crate) trait Probe: Sync {
    fn link(&self) -> &Link;
    fn probe(&self, timeout: Duration) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Watches over the connection; returns when it is to be given up.
///
/// # Cancel safety
/// Dropping it ends the watch.
pub(crate) async fn watch_over(connection: &impl Probe, clock: Clock) {
    let link = connection.link();
    let mut missed = 0;
    while missed < MISSED_MAX {
        let patience = Patience::for_round_trips_of(link.round_trip().unwrap_or_default());
        if missed == 0 {
            tokio::time::sleep(TICK).await;
            if !is_due(link, clock, patience) {
                continue;
            }
        }
        let heard_before = link.heard();
        missed = match connection.probe(patience.probe).await {
            // A refusal is an answer too.
            Ok(()) | Err(Failure::Refused(_)) => 0,
            Err(Failure::TimedOut) if link.heard() > heard_before => 0,
            Err(Failure::TimedOut) => missed + 1,
            Err(Failure::Lost(_)) => return,
        };
    }
}

fn is_due(link: &Link, clock: Clock, patience: Patience) -> bool {
    let quiet = clock.now() - link.heard();
    quiet >= QUIET_IDLE || (link.is_waiting() && quiet >= patience.quiet_waiting)
}

/// How long nothing may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patience {
    /// Before the server is asked, while a reply is waited for.
    quiet_waiting: Duration,
    /// For the answer to a question.
    probe: Duration,
}

impl Patience {
    fn for_round_trips_of(round_trip: Duration) -> Self {
        let least = round_trip.saturating_mul(2);
        Self { quiet_waiting: QUIET_WAITING.max(least), probe: PROBE_TIMEOUT.max(least) }
    }
}

/// How long a probe may take, and a question that nobody waits for, where the server is near.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(300);
const MISSED_MAX: u32 = 2;
const TICK: Duration = Duration::from_millis(100);
const QUIET_IDLE: Duration = Duration::from_secs(1);
const QUIET_WAITING: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_the_distance_of_the_server() {
        let millis = |round_trip_ms| {
            let patience = Patience::for_round_trips_of(Duration::from_millis(round_trip_ms));
            (patience.quiet_waiting.as_millis(), patience.probe.as_millis())
        };
        assert_eq!(
            [0, 100, 150, 320, 440].map(millis),
            [(200, 300), (200, 300), (300, 300), (640, 640), (880, 880)]
        );
    }
}
