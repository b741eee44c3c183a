//! Notices a connection that is dead without saying so: a stopped server, a pulled cable, a forgotten NAT entry.
//!
//! fred's own detection is reset by every write, so it never fires on a busy connection. Here only what is *received*
//! counts. While somebody waits for a reply and nothing comes, or when nothing was heard for a second, the server is
//! asked; two questions in a row without an answer, and without anything else received meanwhile, are the end.
//! So a server that is merely busy for less than 600 ms is left alone.

use std::time::Duration;

use leasehold::clock::Clock;

use crate::connection::link::{Failure, Link};

/// Asks the server for anything, within [`PROBE_TIMEOUT`].
pub(crate) trait Probe: Sync {
    fn link(&self) -> &Link;
    fn probe(&self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Watches over the connection; returns when it is to be given up.
///
/// # Cancel safety
/// Dropping it ends the watch.
pub(crate) async fn watch_over(connection: &impl Probe, clock: Clock) {
    let link = connection.link();
    let mut missed = 0;
    while missed < MISSED_MAX {
        if missed == 0 {
            tokio::time::sleep(TICK).await;
            if !is_due(link, clock) {
                continue;
            }
        }
        let heard_before = link.heard();
        missed = match connection.probe().await {
            // A refusal is an answer too.
            Ok(()) | Err(Failure::Refused(_)) => 0,
            Err(Failure::TimedOut) if link.heard() > heard_before => 0,
            Err(Failure::TimedOut) => missed + 1,
            Err(Failure::Lost(_)) => return,
        };
    }
}

fn is_due(link: &Link, clock: Clock) -> bool {
    let quiet = clock.now() - link.heard();
    quiet >= QUIET_IDLE || (link.is_waiting() && quiet >= QUIET_WAITING)
}

/// How long a probe may take.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(300);
const MISSED_MAX: u32 = 2;
const TICK: Duration = Duration::from_millis(100);
const QUIET_IDLE: Duration = Duration::from_secs(1);
const QUIET_WAITING: Duration = Duration::from_millis(200);
