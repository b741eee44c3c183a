//! The YAML file of a Redisson client, read as settings of engine and transport.

mod ignored_key;
mod import;
mod keys;
mod node;
mod variables;

use std::{borrow::Cow, path::Path};

use leasehold::{Invalid, transport::Transport};

pub use self::ignored_key::IgnoredKey;
use self::{import::Import, node::Node};
use super::{super::ConfigError, ConfigFile, ConfigFileError, expansion::Variables};
use crate::RedisTransport;

impl ConfigFile {
    /// Reads the YAML file of a Redisson client, so that Java and Rust services begin with the same settings. Returns
    /// the settings, and the keys that have no effect, each with the reason. JSON is read too. It needs the feature
    /// `redisson-yaml`.
    ///
    /// Read are files with `singleServerConfig`, `sentinelServersConfig` or `clusterServersConfig`. A key becomes a
    /// setting, has no effect, or is refused; `COMPATIBILITY.md` has the table. Refused is what would change the meaning
    /// of a lock if it were left out, such as a `nameMapper`, and what Redisson does not know. Settings that the file
    /// does not have are those of Leasehold, not those of Redisson. `${NAME}` and `${NAME:-default}` in a value are
    /// replaced by the environment variable. A whole number with a leading 0 is octal, as Redisson reads it.
    ///
    /// # Errors
    /// The first problem, with file, line, column, key, value and remedy. The error never shows a password, the value of
    /// a variable, or the value of an unknown key.
    ///
    /// # Examples
    /// ```no_run
    /// use leasehold::Engine;
    /// use leasehold_redis::{ConfigFile, RedisTransport};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let (file, ignored) = ConfigFile::from_redisson_yaml("redisson.yaml")?;
    /// for key in ignored {
    ///     println!("{key}");
    /// }
    /// let engine = Engine::builder(RedisTransport::new(file.redis)).config(file.engine).build().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_redisson_yaml(path: impl AsRef<Path>) -> Result<(Self, Vec<IgnoredKey>), ConfigFileError> {
        let (path, name) = (path.as_ref(), path.as_ref().display().to_string());
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigFileError::unreadable(&name, &error))?;
        Self::parse_redisson_yaml(&text, &name)
    }

    /// Reads the text of such a file. `name` is the file name for errors.
    ///
    /// # Errors
    /// As [`from_redisson_yaml`](Self::from_redisson_yaml).
    ///
    /// # Examples
    /// ```
    /// use leasehold_redis::ConfigFile;
    ///
    /// let yaml = "
    /// singleServerConfig:
    ///   address: redis://cache:6379
    ///   connectionPoolSize: 64
    /// lockWatchdogTimeout: 20000
    /// ";
    /// let (file, ignored) = ConfigFile::parse_redisson_yaml(yaml, "redisson.yaml")?;
    /// assert_eq!((file.redis.addresses[0].port, file.engine.ttl_ms), (6379, 20_000));
    /// assert_eq!(ignored[0].key, "singleServerConfig.connectionPoolSize");
    /// # Ok::<(), leasehold_redis::ConfigFileError>(())
    /// ```
    pub fn parse_redisson_yaml(text: &str, name: &str) -> Result<(Self, Vec<IgnoredKey>), ConfigFileError> {
        let variables = |variable: &str| std::env::var(variable).ok();
        read(text, &variables).map_err(|error| ConfigFileError { file: name.into(), ..error })
    }
}

fn read(text: &str, variables: Variables<'_>) -> Result<(ConfigFile, Vec<IgnoredKey>), ConfigFileError> {
    let root = Node::parse(&without_tabs(text), variables)?;
    let import = Import::of(&root)?;
    import.file.redis.check().map_err(|error| from_redis(&import, error))?;
    let capabilities = RedisTransport::new(import.file.redis.clone()).capabilities();
    import.file.engine.check(capabilities).map_err(|error| from_engine(&import, error))?;
    Ok((import.file, import.ignored))
}

/// The text without its mark of UTF-8. In JSON, which begins with a brace, the tabs before a line are blanks: YAML would refuse
/// them.
fn without_tabs(text: &str) -> Cow<'_, str> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with('{') || !text.contains('\t') {
        return text.into();
    }
    let line = |line: &str| {
        let rest = line.trim_start_matches([' ', '\t']);
        " ".repeat(line.len() - rest.len()) + rest
    };
    text.split_inclusive('\n').map(line).collect::<String>().into()
}

fn from_redis(import: &Import<'_>, error: ConfigError) -> ConfigFileError {
    let against = error.against.map(|(field, value)| format!("`redis.{field}` is {value}").into());
    let key = format!("redis.{}", error.field);
    ConfigFileError { against, ..refused(import, &key, error.entry, error.value, error.remedy) }
}

fn from_engine(import: &Import<'_>, error: Invalid) -> ConfigFileError {
    refused(import, &format!("engine.{}", error.field), None, error.value, &error.remedy)
}

/// The error about a setting, at the key from which it came. Without one, the setting has its default.
fn refused(
    import: &Import<'_>,
    setting: &str,
    entry: Option<usize>,
    value: String,
    remedy: &str,
) -> ConfigFileError {
    let Some(origin) = import.origin(setting) else {
        let (key, value) = (Some(setting.into()), Some(value.into()));
        return ConfigFileError {
            file: "".into(),
            spot: Some((1, 1)),
            key,
            value,
            against: None,
            remedy: remedy.into(),
            is_variable_against_url: false,
        };
    };
    let origin = entry.and_then(|entry| origin.entries().get(entry)).unwrap_or(origin);
    origin.refused(remedy)
}

#[cfg(test)]
mod tests;
