//! What the engine and its transports tell `tracing`: spans of calls, with their outcomes; the log, and what it never has.
#![allow(clippy::disallowed_methods, reason = "tests on real servers run in real time")]

mod capture;

mod contention;
mod secrets;
mod spans;
mod start;
