//! Leasehold beside a live Redisson on one Redis: each excludes the other, wakes the other, and outlives the other.
//!
//! Needs Java and Maven; a test without them fails and says how to install them. The driver is built when its jar is
//! missing (`mvn -q -B package` in `tests/interop/java`, 3 to 10 s).
#![allow(clippy::disallowed_methods, reason = "drives a JVM and a server in real time")]

mod counter;
mod deaths;
mod field;
mod ground;
mod handover;
mod java;
mod renewal;
