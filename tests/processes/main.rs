//! Several processes on the same servers: what they believed to hold never overlaps, tokens rise, everybody has turns, and
//! nothing is left. Then the same checkers against engines with a fault each: they must see it.
#![allow(clippy::disallowed_methods, reason = "drives real processes in real time")]

mod exclusion;
mod fairness;
mod faults;
mod forks;
mod lineup;
mod servers;
