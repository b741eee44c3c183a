//! Rules of the house that a machine can check.

mod functions;
mod metrics;
mod promises;
mod rust_version;
mod sources;
