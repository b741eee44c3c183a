#![doc = include_str!("../README.md")]

mod audit;
mod config;
mod connection;
#[cfg(test)]
mod dice;
mod lane;
mod notices;
mod routing;
mod transport;
mod wire;

#[doc = include_str!("../OPERATORS.md")]
pub mod operators {}

pub use config::{
    Address, Batching, ConfigError, ConfigFile, ConfigFileError, NoticeKind, Password, RedisConfig,
    RedisTopology, Secret, SentinelTlsConfig, TlsConfig,
};
pub use transport::RedisTransport;
pub use wire::names;
