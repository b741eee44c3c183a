//! Rules of the house that a machine can check.

mod functions;
mod promises;
mod rust_version;
mod sources;
mod track_record;
