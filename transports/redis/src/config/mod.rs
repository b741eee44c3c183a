//! The settings, their sources (code, a URL, a file), and the checks for contradictions. Pure, except for reading
//! the configured files and variables.

mod address;
mod address_map;
mod check;
mod choices;
mod credentials;
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
