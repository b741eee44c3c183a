//! What a holder may believe, as arithmetic. Pure.
//!
//! The deadline counts from the moment the last confirmed command was *sent*, less a margin for clock drift, so it
//! lies before the moment at which the server can give the lock away (Gray & Cheriton, "Leases", 1989). It is the
//! largest over all confirmations and never moves back.

use std::{fmt, time::Duration};

use crate::clock::Instant;

/// The shortest ttl that can be asked for: shorter ones leave no room for margin, renewal and a retry.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// How much earlier than the server the holder stops believing: 5 % of the ttl, at least 100 ms (two ticks).
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 20).max(MARGIN_MIN)
}

/// Until when a confirmation of a command sent at `sent` may be believed.
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl.saturating_sub(margin(ttl))
}

/// When a lease that was confirmed by a command sent at `sent` is renewed next.
pub(crate) fn renew_at(sent: Instant, ttl: Duration) -> Instant {
    sent + ttl / 3
}

/// What the holder of a lease can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Held; the last renewal was confirmed.
    Held,
    /// Still held, but a renewal got no answer, or the server is not the one that granted it. The name is Chubby's.
    Jeopardy,
    /// Not held any more, for ever.
    Lost(LossReason),
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The deadline passed without a confirmation.
    Expired,
    /// The server said that the lock is not ours: deleted, forced, lost with the server's data, or taken over.
    NotOurs,
    /// `max_hold` was over, so it was renewed no longer.
    MaxHold,
    /// The engine was shut down.
    Shutdown,
    /// The engine's renewal thread stopped working. A fault of this process.
    RenewalStopped,
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
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "no renewal was confirmed before the deadline",
            LossReason::NotOurs => "the server says the lock is not ours any more",
            LossReason::MaxHold => "max_hold was over",
            LossReason::Shutdown => "the engine was shut down",
            LossReason::RenewalStopped => "the renewal thread stopped working",
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
