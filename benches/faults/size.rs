//! How much is held while something fails.

use std::time::Duration;

use leasehold::{Engine, Lease};
use tokio::runtime::{self, Runtime};

/// How much is held, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultsSize {
    /// Of a part of which some are struck.
    pub(super) leases: usize,
    /// Lost at once.
    pub(super) crowd: usize,
    pub(super) ttl: Duration,
    /// Whether what is late is a fault: a machine that runs other tests beside this is late itself.
    pub(super) late_counts: bool,
}

/// What the performance page names; about four minutes.
pub(crate) const LARGE: FaultsSize =
    FaultsSize { leases: 30_000, crowd: 100_000, ttl: Duration::from_secs(30), late_counts: true };
/// In seconds; shows that it works.
pub(crate) const SMALL: FaultsSize =
    FaultsSize { leases: 600, crowd: 2_000, ttl: Duration::from_secs(3), late_counts: false };

/// The application's.
pub(super) fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("a runtime")
}

pub(super) async fn hold(engine: &Engine, names: Vec<String>) -> Vec<Lease> {
    let outcomes = engine.acquire_all(names).await;
    outcomes.into_iter().collect::<Result<_, _>>().expect("nobody else wants them")
}

pub(super) const WORKERS: usize = 2;
