#![doc = include_str!("../README.md")]

pub mod clock;
mod contention;
pub mod fencing;
pub mod key;
pub mod lease;
pub mod owner;
mod renewal;
pub mod routing;
pub mod transport;
