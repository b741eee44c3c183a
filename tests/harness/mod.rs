//! The test ground: real servers that fail on request, a wire that loses and repeats, and checkers of what happened.
//!
//! It knows the Redis protocol and nothing of the engine: whatever it hands out is plain data, so a fault in the
//! engine cannot hide in a type it shares with its tests.
//!
//! * [`redis_server`] starts and ends servers, [`clock_shim`] moves their clocks.
//! * [`cluster`] and [`sentinel`] start deployments of several; [`node`] is one server of them, [`server_version`] which
//!   program it runs, [`server_tls`] and [`certificates`] what it shows of itself.
//! * [`deployment`] is any of them, for tests that are the same on each; [`shared`] starts one for many tests.
//! * [`proxy`] stands between a client and a server and injects faults into single commands.
//! * [`gateway`] stands in front of several servers, as proxies of meshes and clouds do; [`program_proxy`] is a
//!   proxy from Debian.
//! * [`recorder`] writes down who believed to hold what, and [`checkers`] judge it afterwards.
//! * [`talker`] runs a program that is driven line by line.
//! * [`stall`] says when the machine stood still, and a failure says nothing.
//! * [`secrets`] searches all that is logged for the secrets of the tests.
//! * [`length`] says whether the long runs are wanted.
//! * [`monitor`] reports what a server executes and when.
//! * [`server_table`] shows what is left on a server, [`raw_client`] talks to it without any library.
//!
//! Nothing here waits for a fixed time: [`polling`] looks for a fact under a deadline.
#![allow(
    clippy::disallowed_methods,
    reason = "the ground drives real servers in real time; it is no pure file"
)]

pub mod certificates;
pub mod checkers;
pub mod clock_shim;
pub mod cluster;
pub mod deployment;
pub mod frames;
pub mod gateway;
pub mod length;
pub mod monitor;
pub mod node;
pub mod polling;
pub mod port;
pub mod program_proxy;
pub mod proxy;
pub mod raw_client;
pub mod recorder;
pub mod redis_server;
pub mod resp;
pub mod secrets;
pub mod seed;
pub mod sentinel;
pub mod server;
pub mod server_table;
pub mod server_tls;
pub mod server_version;
pub mod shared;
pub mod stall;
pub mod talker;
