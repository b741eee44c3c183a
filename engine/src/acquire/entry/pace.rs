//! The times by which an entry decides.

use std::time::Duration;

/// What the entry must know of the world to decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long without a definite answer until callers are told.
    pub(crate) unavailable_after: Duration,
    /// How long the answer of an ask may take.
    pub(crate) command_timeout: Duration,
    /// How long until a waiting entry asks without any notice, jitter included.
    pub(crate) safety_poll: Duration,
    /// A recent round trip.
    pub(crate) round_trip: Duration,
}
