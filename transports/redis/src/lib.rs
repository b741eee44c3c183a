#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod lane;
mod notices;
mod routing;
mod transport;
mod wire;

pub use config::{
    Address, Batching, ConfigError, NoticeKind, Password, RedisConfig, RedisTopology, Secret, TlsConfig,
};
pub use transport::RedisTransport;
pub use wire::names;
