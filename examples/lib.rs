//! Leasehold's examples.
