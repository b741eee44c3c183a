//! The scripts of the fair lock, each run by itself on servers whose time is the test's, beside those of Redisson.
#![allow(clippy::disallowed_methods, reason = "tests on a real server run in real time")]

mod cases;
mod clock;
mod histories;
mod lines;
mod model;
mod mutants;
mod ours;
mod peer_model;
mod redisson;
#[path = "../scripts_read_write/resp.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod resp;
#[path = "../scripts_read_write/server.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod server;
mod space;
mod state;
mod traces;
mod world;
