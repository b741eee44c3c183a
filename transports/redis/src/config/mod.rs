//! The settings: what they are, where they come from (code, a URL, a file), and what contradicts what. Pure but for the
//! files and variables that it is told to read.

mod address;
mod address_map;
mod check;
mod choices;
mod error;
mod file;
mod password;
mod settings;
mod tls;
mod url;

pub use self::{
    address::Address,
    choices::{Batching, NoticeKind, RedisTopology},
    error::ConfigError,
    file::{ConfigFile, ConfigFileError},
    password::{Password, Secret},
    settings::RedisConfig,
    tls::{SentinelTlsConfig, TlsConfig},
};
