//! User code that blocks, is slow or panics, on engines with threads of their own: no lease is harmed, the limits of
//! callers hold, and every loss is told.
//!
//! A recorder belongs to one engine, a `tracing` subscriber to a process: so each subscriber runs in a process of its own
//! (`subscriber.rs`).

mod recorders;
mod reports;
mod subscribers;
mod wakers;
