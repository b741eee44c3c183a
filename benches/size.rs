//! How much is measured and counted: in full, or in seconds to show that it works.

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Pairs per task and round.
    pub(crate) pairs: usize,
    /// Rounds; medians are told.
    pub(crate) rounds: usize,
    /// Entries of the largest wheel.
    pub(crate) wheel: usize,
    /// What is counted.
    pub(crate) counts: Counts,
}

/// How often each job is done under callgrind, which takes fifty times as long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) pairs: usize,
    /// Leases of the renewal job: enough that the cost of the wheel's own ticks, twenty a second, does not show.
    pub(crate) leases: usize,
    pub(crate) renewals: usize,
    pub(crate) batches: usize,
    pub(crate) wheel_operations: usize,
}

pub(crate) const LARGE: Size = Size { pairs: 20_000, rounds: 5, wheel: 1_000_000, counts: LARGE_COUNTS };
pub(crate) const SMALL: Size = Size { pairs: 200, rounds: 1, wheel: 1_000, counts: SMALL_COUNTS };
/// The limits are those of these.
const LARGE_COUNTS: Counts =
    Counts { pairs: 2_000, leases: 20_000, renewals: 40_000, batches: 200, wheel_operations: 400_000 };
/// Once through everything, also in a build without optimisation.
const SMALL_COUNTS: Counts =
    Counts { pairs: 20, leases: 200, renewals: 400, batches: 2, wheel_operations: 4_000 };
