//! Leasehold's tests.

pub mod conformance;
pub mod conservation;
pub mod every_event;
pub mod harness;
pub mod interposed;
