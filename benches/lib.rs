//! Leasehold's benches.
