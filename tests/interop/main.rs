//! Leasehold beside a live Redisson, on one Redis, behind sentinels and on a cluster: each excludes the other, wakes the
//! other, and outlives the other.
//!
//! Needs Java and Maven; a test without them fails and says how to install them. The driver is built when its jar is
//! missing or old (`mvn -q -B package` in `tests/interop/java`, 3 to 10 s). Sentinels and the cluster run the counters in
//! short form; at full length:
//!
//! ```sh
//! LEASEHOLD_LONG=1 cargo test -p leasehold-tests --test interop -- --nocapture
//! ```
#![allow(clippy::disallowed_methods, reason = "drives a JVM and a server in real time")]

mod fixture;
mod java;

mod compositions;
mod counter;
mod counter_traces;
mod deaths;
mod fair;
mod field;
mod handover;
mod kinds;
mod lost_unlocks;
mod read_write;
mod renewal;
mod semaphores;
mod shares;
mod switches;
