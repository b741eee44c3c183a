//! Real servers that fail, real connections that break, real processes that die.
//!
//! What concerns the lock and not one server's own trouble runs on sentinels and on a cluster, too.
#![allow(clippy::disallowed_methods, reason = "tests on real servers run in real time")]

mod commands;
mod contest;
mod fixture;
mod holder_process;
mod life;
mod tally;

mod audits;
mod bad_access;
mod calls_runtime;
mod closing;
mod composition_counts;
mod conservation;
mod counters;
mod counts;
mod fair_counts;
mod following;
mod groups;
mod holders;
mod interrupted_scripts;
mod late_requests;
mod lost_notices;
mod many_leases;
mod many_locks;
mod permits;
mod quorums;
mod recipes;
mod renewal_batches;
mod replies;
mod server_clocks;
mod server_runs;
mod server_trouble;
mod upkeep;
