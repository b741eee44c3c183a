#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod lane;
mod node;
mod notices;
mod transport;
mod wire;

pub use config::{ConfigError, Password, RedisConfig, RedisTopology, Secret};
pub use transport::RedisTransport;
pub use wire::names;
