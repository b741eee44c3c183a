//! Nothing is left behind, whatever is dropped when, and no blocked runtime of the user's loses a lease.
//!
//! In real time, on engines with threads of their own, on memory, on a real Redis, behind sentinels and on
//! a cluster.

mod blocked;
mod compositions;
mod dropped_counts;
mod dropped_futures;
mod dropped_leases;
mod dropped_permits;
mod fixture;
mod renewal_thread;
mod resources;
