//! How many leases are held beside a Redisson, and for how long.

use std::time::Duration;

/// How much is held, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasesSize {
    pub(super) leases: usize,
    /// The ttl, and the `lockWatchdogTimeout` of Redisson.
    pub(super) ttl: Duration,
    /// From the last grant to the first window, in renewal periods: what compiles while it runs has compiled by then.
    pub(super) settling_periods: u32,
    /// Windows of two renewal periods each.
    pub(super) rounds: usize,
}

impl LeasesSize {
    /// From one renewal to the next, of both.
    pub(super) fn period(self) -> Duration {
        self.ttl / 3
    }
}

/// About three minutes.
pub(crate) const LARGE: LeasesSize =
    LeasesSize { leases: 100_000, ttl: Duration::from_secs(30), settling_periods: 4, rounds: 5 };
/// In seconds; shows that it works.
pub(crate) const SMALL: LeasesSize =
    LeasesSize { leases: 500, ttl: Duration::from_secs(3), settling_periods: 1, rounds: 1 };
