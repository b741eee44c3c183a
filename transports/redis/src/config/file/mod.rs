//! `leasehold.toml`: the settings of engine and transport in one file.

mod error;
mod expansion;
mod fault;
mod keys;
mod located;
mod node;
mod reading;
#[cfg(feature = "redisson-yaml")]
mod redisson;
mod spot;

use std::path::Path;

use leasehold::{EngineConfig, Invalid, transport::Transport};
use serde::Deserialize;

pub use self::error::ConfigFileError;
#[cfg(feature = "redisson-yaml")]
pub use self::redisson::IgnoredKey;
use self::{expansion::Variables, node::Node};
use super::{ConfigError, RedisConfig};
use crate::RedisTransport;

/// The content of a `leasehold.toml`: the settings of the engine and of this transport. It needs the
/// feature `config-file`, which is a default feature.
///
/// ```toml
/// [engine]
/// ttl_ms = 20000
///
/// [redis]
/// topology = "sentinel"
/// addresses = ["sentinel-1.internal", "sentinel-2.internal", "sentinel-3.internal"]
/// service_name = "mymaster"
/// password = { file = "/run/secrets/redis" }
///
/// [redis.tls]
/// ca = "/etc/ssl/redis-ca.pem"
/// ```
///
/// `leasehold.example.toml`, at the root of the repository, shows every key. Unknown keys are refused.
///
/// `${NAME}` inside a text is replaced by that environment variable, which must be set. `$${` stands for `${`
/// itself. This happens once, when the file is read, after its syntax was parsed, so no value can break the syntax.
/// A text with a `${NAME}` in it may be given where a number is expected: `database = "${DATABASE}"`. A password
/// that should be read again at each connect is written `{ env = "NAME" }` or `{ file = "path" }`.
///
/// # Examples
/// ```no_run
/// use leasehold::Engine;
/// use leasehold_redis::{ConfigFile, RedisTransport};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let file = ConfigFile::read("leasehold.toml")?;
/// let engine = Engine::builder(RedisTransport::new(file.redis)).config(file.engine).build().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigFile {
    /// The section `[engine]`. Default: the default of every setting.
    #[serde(default)]
    pub engine: EngineConfig,
    /// The section `[redis]`. No default.
    pub redis: RedisConfig,
}

impl ConfigFile {
    /// The settings that a file with these two parts would hold.
    pub fn new(engine: EngineConfig, redis: RedisConfig) -> Self {
        Self { engine, redis }
    }

    /// Reads and checks a file. Relative paths in it start at the working directory of the process.
    ///
    /// # Errors
    /// The first problem, with file, line, column, key, value and remedy. The error never shows a password or the
    /// value of a `${NAME}`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigFileError> {
        let (path, name) = (path.as_ref(), path.as_ref().display().to_string());
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigFileError::unreadable(&name, &error))?;
        Self::parse(&text, &name)
    }

    /// Parses and checks the text of a file. `name` is the file name for errors.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigFileError> {
        Self::parse_with(text, name, &|variable| std::env::var(variable).ok())
    }

    fn parse_with(text: &str, name: &str, variables: Variables<'_>) -> Result<Self, ConfigFileError> {
        let root = Node::parse(text, variables).map_err(|fault| fault.in_file(name, text))?;
        let file = ConfigFile::deserialize(&root).map_err(|fault| fault.in_file(name, text))?;
        file.redis.check().map_err(|error| from_redis(&root, error).in_file(name, text))?;
        let capabilities = RedisTransport::new(file.redis.clone()).capabilities();
        file.engine.check(capabilities).map_err(|error| from_engine(&root, error).in_file(name, text))?;
        Ok(file)
    }
}

fn from_redis(root: &Node, error: ConfigError) -> fault::Fault {
    let against = error.against.map(|(field, value)| (format!("redis.{field}"), value));
    let subject = root.subject(&format!("redis.{}", error.field), error.entry, error.value);
    subject.refused(error.remedy).but(root, against)
}

fn from_engine(root: &Node, error: Invalid) -> fault::Fault {
    root.subject(&format!("engine.{}", error.field), None, error.value).refused(error.remedy)
}

#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;
