//! Leasehold beside a live Redisson, on one Redis, behind sentinels and on a cluster: each excludes the other, wakes the
//! other, and outlives the other.
//!
//! Needs Java and Maven; a test without them fails and says how to install them. The driver is built when its jar is
//! missing or old (`mvn -q -B package` in `tests/interop/java`, 3 to 10 s). Sentinels and the cluster run the counters in
//! short form; at full length:
//!
//! ```sh
//! LEASEHOLD_LONG=1 cargo test --workspace --test interop -- --nocapture
//! ```
//!
//! Beside another Redisson, built into a folder of its own (`tests/run --long` does this with 3.27.2):
//!
//! ```sh
//! LEASEHOLD_REDISSON=3.27.2 cargo test --workspace --test interop
//! ```
//!
//! On a cluster each client of 3.22 to 3.27 chooses by chance how it publishes and listens. There our engines have
//! `notices = "both"`, as `transports/redis/OPERATORS.md` says.
#![allow(clippy::disallowed_methods, reason = "drives a JVM and a server in real time")]

mod fixture;
mod java;

mod compositions;
mod counter;
mod counter_traces;
mod deaths;
mod deaths_of_kinds;
mod fair;
mod field;
mod handover;
mod kinds;
mod lost_unlocks;
mod permits;
mod read_write;
mod renewal;
mod semaphores;
mod shares;
mod switches;
