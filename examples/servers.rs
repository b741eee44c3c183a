//! Which servers the arguments of a small example name.

use std::process;

use leasehold::EngineConfig;
use leasehold_redis::{ConfigFile, RedisConfig};

use crate::Trouble;

/// Where the locks are.
pub enum Servers {
    /// In this process.
    Memory,
    /// On the servers that an URL or a file names, with the engine's settings if it has some.
    Redis(Box<ConfigFile>),
}

/// What the arguments say: nothing, `--url redis://...` or `--config leasehold.toml`. Ends the process on anything else.
///
/// # Errors
/// What is wrong with the URL or the file.
pub fn servers() -> Result<Servers, Trouble> {
    let mut arguments = std::env::args().skip(1);
    let Some(flag) = arguments.next() else { return Ok(Servers::Memory) };
    match (flag.as_str(), arguments.next(), arguments.next()) {
        ("--url", Some(url), None) => Ok(Servers::of_url(&url)?),
        ("--config", Some(file), None) => Ok(Servers::of_file(&file)?),
        ("--help" | "-h", None, None) => usage(0),
        _ => usage(2),
    }
}

impl Servers {
    /// The servers that a URL names.
    ///
    /// # Errors
    /// What is wrong with the URL, without its passwords.
    pub fn of_url(url: &str) -> Result<Self, leasehold_redis::ConfigError> {
        let redis = RedisConfig::from_url(url)?;
        Ok(Self::Redis(Box::new(ConfigFile::new(EngineConfig::default(), redis))))
    }

    /// The servers that a file names.
    ///
    /// # Errors
    /// What is wrong with the file, and in which line.
    pub fn of_file(path: &str) -> Result<Self, leasehold_redis::ConfigFileError> {
        ConfigFile::read(path).map(|file| Self::Redis(Box::new(file)))
    }
}

// What was written is not repeated: a URL may carry a password.
fn usage(code: i32) -> ! {
    eprintln!(
        "Runs in memory without arguments, or with one of:\n  \
         --url redis://[[user]:password@]host[:port][/database]\n  \
         --config FILE    a leasehold.toml; see examples/config and leasehold.example.toml"
    );
    process::exit(code)
}
