//! Which server serves which slot, for each deployment topology. All lanes share the result, and each lane keeps it
//! up to date.

mod cluster;
pub(crate) mod deployment;
mod errors;
mod master_election;
mod membership;
mod node_addresses;
mod poll_interval;
mod sentinel_link;
mod sentinel_messages;
mod sentinel_monitor;
mod sentinel_set;
mod sentinels;
mod server;
mod slots;
mod start_vote;

pub(crate) use cluster::{fetch_view, find_cluster, poll_cluster};
pub(crate) use errors::most_helpful;
pub(crate) use sentinel_monitor::monitor_sentinels;
pub(crate) use sentinels::{ask_sentinels, find_master, try_sentinels};
pub(crate) use server::Server;
