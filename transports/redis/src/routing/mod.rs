//! Which server serves which slot, for each topology: known to all lanes, kept up to date by each.

pub(crate) mod atlas;
mod cluster;
mod errors;
mod membership;
mod pace;
mod poll;
mod roster;
mod sentinels;
mod server;
mod slots;
mod succession;
mod vigil;
mod whereabouts;

pub(crate) use cluster::{find_cluster, keep_surveyed, survey};
pub(crate) use errors::most_helpful;
pub(crate) use sentinels::{ask_sentinels, find_master, try_sentinels};
pub(crate) use server::Server;
pub(crate) use vigil::keep_listening;
