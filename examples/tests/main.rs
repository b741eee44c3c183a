//! Every example runs to its end as it stands, and `fleet` tells the truth with its exit code and its last line.
#![allow(clippy::disallowed_methods, reason = "it watches real processes in real time; it is no pure file")]

mod config;
mod exporters;
mod first_screen;
mod fleet;
mod fleet_and_failures;
mod fleet_kinds;
mod fleet_refuses;
mod fleet_tells;
mod guarded_handler;
mod history;
mod pair;
mod place;
mod program;
mod small_examples;
mod topologies;
mod two_fleets;
