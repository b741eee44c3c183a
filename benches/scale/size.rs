//! How many leases contestants hold.

/// How much is held, and for how long one window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleSize {
    pub(crate) leases: usize,
    pub(crate) ttl_ms: u64,
    /// The largest crowd on the memory transport.
    pub(crate) crowd: usize,
}

/// What the performance page names.
pub(crate) const LARGE: ScaleSize = ScaleSize { leases: 100_000, ttl_ms: 30_000, crowd: 1_000_000 };
/// In seconds; shows that it works.
pub(crate) const SMALL: ScaleSize = ScaleSize { leases: 500, ttl_ms: 2_000, crowd: 2_000 };
