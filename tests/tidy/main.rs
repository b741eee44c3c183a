//! Rules of the house that a machine can check.

mod arrows;
mod compatibility;
mod errors;
mod examples;
mod first_build;
mod first_screen;
mod foreign_texts;
mod functions;
mod growth;
mod imports;
mod links;
mod markdown;
mod packages;
mod promises;
mod rust_version;
mod secrets;
mod sources;
mod track_record;
mod words;
