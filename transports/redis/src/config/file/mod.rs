//! `leasehold.toml`: the settings of engine and transport in one file.

mod error;
mod expansion;
mod fault;
mod keys;
mod located;
mod node;
mod overrides;
mod reading;
#[cfg(feature = "redisson-yaml")]
mod redisson;
mod spot;
mod syntax;
mod url_settings;

use std::{ffi::OsString, path::Path};

use leasehold::{EngineConfig, Invalid, transport::Transport};
use serde::Deserialize;

pub use self::error::ConfigFileError;
#[cfg(feature = "redisson-yaml")]
pub use self::redisson::IgnoredKey;
use self::{expansion::Variables, fault::Fault, node::Node, overrides::Override};
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
/// `${NAME}` inside a text is replaced by that environment variable, which must be set; `${NAME:-default}` is the
/// default if it is not set or empty. `$${` stands for `${` itself. This happens once, when the file is read, after its
/// syntax was parsed, so no value can break the syntax. A text with a `${NAME}` in it may be given where a number is
/// expected: `database = "${DATABASE}"`. A password that should be read again at each connect is written
/// `{ env = "NAME" }` or `{ file = "path" }`.
///
/// An environment variable `LEASEHOLD_<SECTION>__<KEY>` overrides a setting: `LEASEHOLD_ENGINE__TTL_MS=20000`,
/// `LEASEHOLD_REDIS__TLS__CA=/etc/ssl/ca.pem`, `LEASEHOLD_REDIS__PASSWORD__FILE=/run/secrets/redis`. A list has commas:
/// `LEASEHOLD_REDIS__ADDRESSES=a:6379,b:6379`. `{}` is an empty section: `LEASEHOLD_REDIS__TLS={}`. An empty variable is as
/// one that is not set. Variables cannot set `classes` and `address_map`. A variable that nearly names a setting is refused,
/// unless the file names it: `LEASEHOLD_TTL_MS`, `LEASEHOLD_ENGINE_TTL_MS`.
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

    /// Reads and checks a file, with the overrides of the environment. Relative paths in it start at its folder;
    /// relative paths in environment variables start at the working directory of the process.
    ///
    /// # Errors
    /// The first problem, with file, line, column, key, value and remedy. The error never shows a password or the
    /// value of a `${NAME}`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigFileError> {
        let (path, name) = (path.as_ref(), path.as_ref().display().to_string());
        let unreadable = |error| ConfigFileError::unreadable(&name, &error);
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let file = std::path::absolute(path).map_err(unreadable)?;
        Self::parse_with(&text, &name, file.parent(), &Environment::of_process())
    }

    /// Parses and checks the text of a file, with the overrides of the environment. `name` is the file name for errors.
    /// Relative paths start at the working directory of the process.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigFileError> {
        Self::parse_with(text, name, None, &Environment::of_process())
    }

    /// The settings in environment variables alone, without a file: `LEASEHOLD_REDIS__ADDRESSES` must be set.
    ///
    /// # Errors
    /// As [`read`](Self::read), with the variable in place of the file.
    ///
    /// # Examples
    /// ```no_run
    /// use leasehold::Engine;
    /// use leasehold_redis::{ConfigFile, RedisTransport};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let settings = ConfigFile::from_env()?; // LEASEHOLD_REDIS__ADDRESSES=redis-1:6379
    /// let engine = Engine::builder(RedisTransport::new(settings.redis)).config(settings.engine).build().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self, ConfigFileError> {
        Self::from_environment(&Environment::of_process())
    }

    fn from_environment(environment: &Environment<'_>) -> Result<Self, ConfigFileError> {
        Self::parse_with(SETTINGS, ENVIRONMENT, None, environment).map_err(without_file)
    }

    /// The settings of a URL, with the overrides of the environment. The URL is as that of [`RedisConfig::from_url`].
    ///
    /// No variable overrides what the URL says: `LEASEHOLD_REDIS__ADDRESSES`, `LEASEHOLD_REDIS__TOPOLOGY` and
    /// `LEASEHOLD_REDIS__SERVICE_NAME` are refused, and so are the variables of a database, a user or a password that
    /// the URL has.
    ///
    /// # Errors
    /// As [`read`](Self::read), with the URL or the variable in place of the file. A variable for what the URL says is
    /// [told apart](ConfigFileError::is_variable_against_url).
    ///
    /// # Examples
    /// ```no_run
    /// use leasehold::Engine;
    /// use leasehold_redis::{ConfigFile, RedisTransport};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let settings = ConfigFile::from_url("redis://redis-1:6379")?; // LEASEHOLD_ENGINE__TTL_MS=20000
    /// let engine = Engine::builder(RedisTransport::new(settings.redis)).config(settings.engine).build().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_url(url: &str) -> Result<Self, ConfigFileError> {
        Self::from_url_in(url, &Environment::of_process())
    }

    fn from_url_in(url: &str, environment: &Environment<'_>) -> Result<Self, ConfigFileError> {
        let redis = RedisConfig::from_url(url).map_err(|error| ConfigFileError::of_url(&error))?;
        url_settings::refuse_rivals(url, &redis, &overrides::of(environment.all.clone()))?;
        let root = root(SETTINGS, None, url_settings::overrides(&redis), environment);
        let read = root.and_then(|root| Self::of_root(&root));
        read.map_err(|fault| without_file(fault.in_file(url_settings::URL, SETTINGS)))
    }

    fn parse_with(
        text: &str,
        name: &str,
        folder: Option<&Path>,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigFileError> {
        let root = root(text, folder, Vec::new(), environment);
        root.and_then(|root| Self::of_root(&root)).map_err(|fault| fault.in_file(name, text))
    }

    fn of_root(root: &Node) -> Result<Self, Fault> {
        let file = ConfigFile::deserialize(root)?;
        file.redis.check().map_err(|error| from_redis(root, error))?;
        let capabilities = RedisTransport::new(file.redis.clone()).capabilities();
        file.engine.check(capabilities).map_err(|error| from_engine(root, error))?;
        Ok(file)
    }
}

/// Variables by name, for `${NAME}`, and all of them, for overrides.
struct Environment<'a> {
    variables: Variables<'a>,
    all: Vec<(OsString, OsString)>,
}

impl Environment<'_> {
    fn of_process() -> Self {
        Self { variables: &|variable| std::env::var(variable).ok(), all: std::env::vars_os().collect() }
    }
}

/// The values of the file, of the URL and of the environment together.
fn root(
    text: &str,
    folder: Option<&Path>,
    of_url: Vec<Override>,
    environment: &Environment<'_>,
) -> Result<Node, Fault> {
    let mut root = Node::parse(text, environment.variables)?;
    folder.into_iter().for_each(|folder| root.begin_paths_at(folder));
    overrides::refuse_near_misses(&environment.all, text)?;
    let overrides = of_url.into_iter().chain(overrides::of(environment.all.clone()));
    overrides.into_iter().try_for_each(|one| one.apply(&mut root))?;
    Ok(root)
}

/// The same error where there is no file: it names the variable that sets the key.
fn without_file(error: ConfigFileError) -> ConfigFileError {
    let remedy = match &error.key {
        Some(key) if [ENVIRONMENT, url_settings::URL].contains(&&*error.file) => {
            format!("{}; the variable is {}", error.remedy, overrides::variable_of(key)).into()
        }
        _ => error.remedy,
    };
    ConfigFileError { remedy, spot: None, ..error }
}

fn from_redis(root: &Node, error: ConfigError) -> Fault {
    let against = error.against.map(|(field, value)| (format!("redis.{field}"), value));
    let subject = root.subject(&format!("redis.{}", error.field), error.entry, error.value);
    subject.refused(error.remedy).but(root, against)
}

fn from_engine(root: &Node, error: Invalid) -> Fault {
    root.subject(&format!("engine.{}", error.field), None, error.value).refused(error.remedy)
}

/// Stands for a file if there is none.
const SETTINGS: &str = "[redis]";
/// What errors say in place of a file name if there is no file.
const ENVIRONMENT: &str = "environment";

#[cfg(test)]
mod example;
#[cfg(test)]
mod overrides_tests;
#[cfg(test)]
mod tests;
