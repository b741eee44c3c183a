//! Since when a key has had no definite answer, how long to pause after a failure, and which asks are paced. Pure.

use std::time::Duration;

use crate::{clock::Instant, metrics::AskCause, transport::TransportError};

/// The time without a definite answer: since the first send that got none.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Unclear {
    pub(super) since: Instant,
    pub(super) last_error: Option<Box<TransportError>>,
}

/// 10 ms, doubled with each consecutive failure, at most 200 ms. So several asks go out within a second after the
/// server has recovered.
pub(super) fn backoff(failures: u32) -> Duration {
    (BACKOFF_MIN * 2u32.saturating_pow(failures.min(10))).min(BACKOFF_MAX)
}

/// Whether the retry rate applies to asks with this cause, because many entries may want such an ask at the same
/// moment.
pub(super) fn is_paced(cause: AskCause) -> bool {
    match cause {
        AskCause::Resync | AskCause::Retry | AskCause::SafetyPoll | AskCause::Poll => true,
        AskCause::Arrival | AskCause::Notice | AskCause::Turn | AskCause::Expiry => false,
    }
}

/// A server counts whole milliseconds, so one millisecond after its expiry a hold is certainly gone.
pub(super) const PAST_EXPIRY: Duration = Duration::from_millis(1);
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(200);
