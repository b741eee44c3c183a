//! Masters that die, stand still or hand over, slots that move, nodes that come and go: on sentinels and on a cluster,
//! under two engines with 200 leases, waiters and traffic on every part.
//!
//! Each test prints what happened when, what was lost and what overlapped. The short forms run in `cargo test`, one after
//! the other, since each wants the machine for itself; the full length is
//!
//! ```sh
//! LEASEHOLD_LONG=1 cargo test --workspace --test failovers -- --nocapture
//! ```
#![allow(clippy::disallowed_methods, reason = "tests on real servers run in real time")]

mod connections;
mod context;
mod deployment;
mod leases;
mod length;
mod log;
mod moment;
mod monitor;
mod news;
mod queue;
mod redirects;
mod report;
mod traffic;
mod waiters;
mod wakes;

mod counters;
mod crashes;
mod migrations;
mod minorities;
mod names;
mod notices;
mod pauses;
mod starts;
mod switches;
mod topologies;
