//! The times that an entry needs for its decisions.

use std::time::Duration;

/// The times that an entry needs for its decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long a caller may be without a definite answer before it gets `Unavailable`.
    pub(crate) unavailable_after: Duration,
    /// How long the answer to an ask may take.
    pub(crate) command_timeout: Duration,
    /// After how long a waiting entry asks without any notice, jitter included.
    pub(crate) safety_poll: Duration,
    /// A number from 0 to 255 that spreads the polls of spin locks.
    pub(crate) jitter: u64,
    /// A recent round trip.
    pub(crate) round_trip: Duration,
}
