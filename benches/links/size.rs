//! How much is held over long links, and for how long.

use std::time::Duration;

use tokio::runtime::{self, Runtime};

/// How much is held, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinksSize {
    pub(super) leases: usize,
    pub(super) ttl: Duration,
    /// How long all are held, at each round trip.
    pub(super) window: Duration,
    /// In milliseconds.
    pub(super) round_trips: &'static [u64],
}

/// About six minutes.
pub(crate) const LARGE: LinksSize = LinksSize {
    leases: 100_000,
    ttl: Duration::from_secs(30),
    window: Duration::from_secs(75),
    round_trips: &[1, 10, 40, 100],
};
/// In seconds; shows that it works.
pub(crate) const SMALL: LinksSize = LinksSize {
    leases: 500,
    ttl: Duration::from_millis(1_500),
    window: Duration::from_millis(500),
    round_trips: &[40],
};

/// The application's.
pub(crate) fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
