//! The configuration, and an engine or a transport for it.

use std::{env, ffi::OsStr, fs::File, io::Read, path::Path, time::Duration};

use leasehold::{BuildError, Engine, clock::Clock};
use leasehold_redis::{ConfigFile, ConfigFileError, RedisConfig, RedisTransport};
use serde_json::json;

use crate::{
    credentials,
    duration::{millis, shown as shown_time},
    exit,
    failure::Failure,
    output::Output,
    place::{self, Named, Place},
};

/// Reads the configuration that the options or the environment name.
///
/// # Errors
/// No place is named, or the configuration cannot be used.
pub(crate) fn configuration(options: Named, output: Output) -> Result<ConfigFile, Failure> {
    if options.url.as_deref().is_some_and(credentials::has_password) {
        output.event("warning", &VISIBLE, json!({ "warning": VISIBLE }));
    }
    let source = if options.url.is_some() { "--url" } else { "LEASEHOLD_URL" };
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let url = variable("LEASEHOLD_URL").map(|url| url.to_string_lossy().into_owned());
    let environment = Named { config: variable("LEASEHOLD_CONFIG").map(Into::into), url };
    let has_addresses = variable("LEASEHOLD_REDIS__ADDRESSES").is_some();
    match place::choose(options, environment, has_addresses)
        .map_err(|none| Failure::new(exit::USAGE, none.to_string()))?
    {
        Place::File(file) => read(&file),
        Place::Settings => ConfigFile::from_env().map_err(refused),
        Place::Url(url) => ConfigFile::from_url(&url).map_err(|error| refused_beside_url(error, source)),
    }
}

// Two places of servers are a mistake of the command, as --config beside --url.
fn refused_beside_url(error: ConfigFileError, source: &str) -> Failure {
    match error.is_variable_against_url() {
        true => Failure::new(exit::USAGE, format!("{source}: {error}")),
        false => refused(error),
    }
}

/// Which servers a command goes to, for a person.
pub(crate) fn shown(redis: &RedisConfig) -> String {
    let addresses: Vec<_> = redis.addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(", ");
    let servers = match &redis.service_name {
        Some(name) => format!("{name:?} of the sentinels {addresses}"),
        None => addresses,
    };
    if redis.database == 0 { servers } else { format!("{servers}, database {}", redis.database) }
}

fn read(file: &Path) -> Result<ConfigFile, Failure> {
    if !is_of_redisson(file) {
        return ConfigFile::read(file).map_err(refused);
    }
    // What has no effect on locks concerns the Java client alone.
    let (read, _ignored) = ConfigFile::from_redisson_yaml(file).map_err(refused)?;
    Ok(read)
}

/// Whether a file is that of a Redisson client: YAML by its name, or JSON, which is YAML too. No TOML begins with a brace. A
/// pipe can be read once only, so its content decides nothing.
fn is_of_redisson(file: &Path) -> bool {
    let ending = file.extension().map(OsStr::to_ascii_lowercase).unwrap_or_default();
    let begins_with_brace = || {
        let mut start = String::new();
        let opened = File::open(file).ok().map(|file| file.take(START_BYTES).read_to_string(&mut start));
        opened.is_some() && start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('{')
    };
    ["yaml", "yml", "json"].iter().any(|known| ending == *known) || (file.is_file() && begins_with_brace())
}

fn refused(error: ConfigFileError) -> Failure {
    Failure::new(exit::CONFIG, error.to_string())
}

/// Builds an engine, which waits for its servers for `unavailable_after_ms`. A line tells of a wait that takes long.
///
/// # Errors
/// No server was ready in time, or refuses.
///
/// # Cancel safety
/// Dropping the future ends the wait and what it has started.
pub(crate) async fn engine(configuration: ConfigFile, output: Output) -> Result<Engine, Failure> {
    Ok(engine_and_transport(configuration, output).await?.0)
}

/// The same, with the transport of the engine, for what only an administrator asks.
///
/// # Errors
/// No server was ready in time, or refuses.
pub(crate) async fn engine_and_transport(
    configuration: ConfigFile,
    output: Output,
) -> Result<(Engine, RedisTransport), Failure> {
    let (servers, patience) = (shown(&configuration.redis), configuration.engine.unavailable_after());
    let transport = RedisTransport::new(configuration.redis);
    let built = Engine::builder(transport.clone()).config(configuration.engine).build();
    let tell = || tell_wait(&servers, patience, output);
    Ok((telling_of_a_wait(built, tell).await?, transport))
}

async fn telling_of_a_wait(
    built: impl Future<Output = Result<Engine, BuildError>>,
    tell: impl FnOnce(),
) -> Result<Engine, BuildError> {
    tokio::pin!(built);
    tokio::select! {
        biased;
        engine = &mut built => return engine,
        () = Clock::Boot.sleep_until(Clock::Boot.now() + UNTIL_TOLD) => tell(),
    }
    built.await
}

fn tell_wait(servers: &str, patience: Duration, output: Output) {
    let text = format!("not connected yet to {servers}; waiting for at most {}", shown_time(patience));
    output.event("waiting", &text, json!({ "servers": servers, "patience_ms": millis(patience) }));
}

/// How much of a file is looked at for its first brace.
const START_BYTES: u64 = 1_024;

/// How long a start may take without a word.
const UNTIL_TOLD: Duration = Duration::from_millis(1_500);

const VISIBLE: &str = "the password in --url is visible to every user of this machine, as `ps` shows; \
                       set LEASEHOLD_URL, or give --config FILE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_shown_as_they_are_named_and_without_a_password() {
        for (url, text) in [
            ("redis://u:hunter2@a", "a:6379"),
            ("redis://a:7/3", "a:7, database 3"),
            ("redis-cluster://a:1?node=b:2", "a:1, b:2"),
            ("redis-sentinel://s?sentinelServiceName=m", "\"m\" of the sentinels s:26379"),
        ] {
            assert_eq!(shown(&RedisConfig::from_url(url).expect("a URL")), text);
        }
    }
}
