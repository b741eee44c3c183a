//! The scripts of the read/write lock and of the fenced lock, each run by itself on servers that the test starts, beside
//! those of Redisson.
#![allow(clippy::disallowed_methods, reason = "tests on a real server run in real time")]

mod fenced;
mod foreign_keys;
mod histories;
mod keyspace;
mod memory;
mod model;
mod moving_slots;
mod notices;
mod ours;
mod redisson;
mod renewals;
mod resp;
mod rights;
mod server;
mod traces;
