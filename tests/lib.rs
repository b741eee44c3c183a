//! Leasehold's tests.

pub mod conformance;
