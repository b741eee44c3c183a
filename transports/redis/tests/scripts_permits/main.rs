//! The scripts of permits that expire, each run by itself on servers that the test starts, beside the traces of a live
//! Redisson.
#![allow(clippy::disallowed_methods, reason = "tests on a real server run in real time")]

mod foreign_keys;
mod histories;
mod memory;
mod model;
mod notices;
mod ours;
mod reclaim;
#[path = "../scripts_read_write/resp.rs"]
mod resp;
mod rights;
#[path = "../scripts_read_write/server.rs"]
mod server;
mod state;
mod traces;
