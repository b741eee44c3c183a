#![doc = include_str!("../README.md")]

pub mod clock;
pub mod fencing;
pub mod key;
pub mod owner;
pub mod routing;
pub mod transport;
