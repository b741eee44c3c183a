//! How long a holder may believe that it holds the lock, as arithmetic. Pure.
//!
//! The deadline counts from the moment at which the last confirmed command was *sent*, less a margin for clock drift.
//! So the deadline lies before the moment at which the server can give the lock to another client (Gray & Cheriton,
//! "Leases", 1989). The deadline is the largest over all confirmations and never moves back.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{clock::Instant, transport::HoldKind};

/// The shortest ttl that a caller can ask for. A shorter ttl has no room for the margin, a renewal and a retry.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// See [`renewal_ttl`].
const READ_TTL_MAX: Duration = Duration::from_secs(30);

/// How much earlier than the server the holder stops believing that the lock is held: 5 % of the ttl, at least 100 ms
/// (two ticks).
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 20).max(MARGIN_MIN)
}

/// The deadline that a confirmation gives: the command was sent at `sent` and asked for `ttl`.
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl.saturating_sub(margin(ttl))
}

/// The ttl by which renewals of a lease are timed. A Java client that reads the same lock sets the expiry of the whole
/// lock to its own 30 s with each of its renewals, and may then die. So a read lease is renewed as if its ttl were 30 s
/// at most.
pub(crate) fn renewal_ttl(kind: HoldKind, ttl: Duration) -> Duration {
    match kind {
        HoldKind::Read => ttl.min(READ_TTL_MAX),
        _ => ttl,
    }
}

/// When a lease that was confirmed by a command sent at `sent` is renewed next.
pub(crate) fn renew_at(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl / 3
}

/// The state of a lease. [`Lease::state`](crate::Lease::state) reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaseState {
    /// The lease is held, and its last renewal was confirmed.
    Held,
    /// The lease is still held, but a renewal got no answer, or the server is not the one that granted it. The name is
    /// Chubby's.
    Jeopardy,
    /// The lease is not held any more, and never will be again.
    Lost(LossReason),
}

/// Why a lease was lost. The [guide](crate::guide::losing) says what to check for each reason.
///
/// # Examples
/// ```
/// use leasehold::LossReason;
///
/// assert_eq!(LossReason::NotOurs.as_str(), "not_ours"); // the label of the metrics
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal was confirmed before the deadline.
    Expired,
    /// The server said that the lease does not hold the lock: the key was deleted, the lock was released by force or
    /// taken over, or the server lost its data.
    NotOurs,
    /// `max_hold` was over, and the lease was not renewed any more.
    MaxHold,
    /// The engine was shut down.
    Shutdown,
    /// The engine's renewal thread stopped working. This is a fault of this process.
    RenewalStopped,
    /// This process is a forked child of the one that holds the lease. The parent still holds it.
    Forked,
}

impl LossReason {
    /// A short fixed word, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::NotOurs => "not_ours",
            LossReason::MaxHold => "max_hold",
            LossReason::Shutdown => "shutdown",
            LossReason::RenewalStopped => "renewal_stopped",
            LossReason::Forked => "forked",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "no renewal was confirmed before the deadline",
            LossReason::NotOurs => "the server says that this lease does not hold the lock any more",
            LossReason::MaxHold => "max_hold was over",
            LossReason::Shutdown => "the engine was shut down",
            LossReason::RenewalStopped => "the renewal thread stopped working",
            LossReason::Forked => {
                "this process was forked from the one that holds the lease; build an engine after the fork"
            }
        })
    }
}

const MARGIN_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_the_deadline_counts_from_the_send_less_the_margin() {
        let sent = Instant::from_nanos(0);
        assert_eq!(deadline(sent, Duration::from_secs(30)) - sent, Duration::from_millis(28_500));
        assert_eq!(deadline(sent, Duration::from_secs(1)) - sent, Duration::from_millis(900));
    }

    #[test]
    fn two_renewals_fit_before_the_deadline() {
        for ttl in [TTL_MIN, Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(86_400)] {
            let sent = Instant::from_nanos(1);
            assert!(renew_at(renew_at(sent, ttl), ttl) < deadline(sent, ttl));
        }
    }
}
