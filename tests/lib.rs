//! Leasehold's tests.
