//! Leasehold's tests.

pub mod conformance;
pub mod conservation;
pub mod harness;
pub mod interposed;
