//! Rules of the house that a machine can check.

mod functions;
mod promises;
mod sources;
