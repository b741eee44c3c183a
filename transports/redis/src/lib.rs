// The page's links lead to files of the repository. Of two definitions the first one counts: here they lead to items.
#![doc = "[`ConfigFile::from_env`]: crate::ConfigFile::from_env"]
#![doc = "[`ConfigFile`]: crate::ConfigFile"]
#![doc = "[`RedisConfig`]: crate::RedisConfig"]
#![doc = "[`RedisConfig::check`]: crate::RedisConfig::check"]
#![doc = "[`RedisConfig::from_url`]: crate::RedisConfig::from_url"]
#![doc = "[`operators`]: crate::operators"]
#![doc = ""]
#![doc = include_str!("../README.md")]

mod admin;
mod audit;
mod config;
mod connection;
mod discovery;
mod lane;
mod notices;
#[cfg(test)]
mod test_rng;
mod transport;
mod wire;

#[doc = include_str!("../OPERATORS.md")]
pub mod operators {}

pub use admin::{ClientConnection, FoundLock, LockScan, RedisAdmin};
#[cfg(feature = "redisson-yaml")]
pub use config::IgnoredKey;
pub use config::{
    Address, Batching, ConfigError, NoticeKind, Password, RedisConfig, RedisTopology, Secret,
    SentinelTlsConfig, TlsConfig,
};
#[cfg(feature = "config-file")]
pub use config::{ConfigFile, ConfigFileError};
pub use transport::RedisTransport;
pub use wire::names;
