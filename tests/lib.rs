//! Leasehold's tests.

pub mod conformance;
pub mod harness;
