//! The conformance suite on every transport and topology.

mod list;
mod memory;
mod memory_behind_faults;
mod memory_in_real_time;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redis_single;
mod shared;
