//! The settings, their sources (code, a URL, a file), and the checks for contradictions. Pure, except for reading
//! the configured files and variables.

mod address;
mod address_map;
mod check;
mod choices;
mod credentials;
mod error;
#[cfg(feature = "config-file")]
mod file;
mod host;
mod password;
mod settings;
mod system_error;
mod tls;
#[cfg(feature = "tls")]
mod tls_files;
mod url;

#[cfg(not(feature = "tls"))]
pub(crate) use self::check::WITHOUT_TLS;
#[cfg(feature = "redisson-yaml")]
pub use self::file::IgnoredKey;
#[cfg(feature = "config-file")]
pub use self::file::{ConfigFile, ConfigFileError};
pub use self::{
    address::Address,
    choices::{Batching, NoticeKind, RedisTopology},
    error::ConfigError,
    password::{Password, Secret},
    settings::RedisConfig,
    tls::{SentinelTlsConfig, TlsConfig},
};
