#![doc = include_str!("../README.md")]

mod backoff;
mod check;
mod config;
mod connection;
mod error;
mod identity;
mod lane;
mod link;
pub mod names;
mod node;
mod notices;
mod offset;
mod password;
mod renewal;
mod reply;
mod scripts;
mod subscriber;
mod transport;
mod watchdog;

pub use config::{ConfigError, RedisConfig, RedisTopology};
pub use password::{Password, Secret};
pub use transport::RedisTransport;
