//! The configuration, and an engine or a transport for it.

use std::{env, path::Path};

use leasehold::Engine;
use leasehold_redis::{ConfigFile, ConfigFileError, RedisTransport};

use crate::{
    credentials, exit,
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
        output.event("warning", &VISIBLE, serde_json::json!({ "warning": VISIBLE }));
    }
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let url = variable("LEASEHOLD_URL").map(|url| url.to_string_lossy().into_owned());
    let environment = Named { config: variable("LEASEHOLD_CONFIG").map(Into::into), url };
    let has_addresses = variable("LEASEHOLD_REDIS__ADDRESSES").is_some();
    match place::choose(options, environment, has_addresses)
        .map_err(|none| Failure::new(exit::USAGE, none.to_string()))?
    {
        Place::File(file) => read(&file),
        Place::Settings => ConfigFile::from_env().map_err(refused),
        Place::Url(url) => {
            let other = NAMES_SERVERS.into_iter().find(|name| variable(name).is_some());
            match other {
                Some(other) => Err(two_places(other)),
                None => ConfigFile::from_url(&url).map_err(refused),
            }
        }
    }
}

// The variable would win, and the command would go to other servers than those that were typed.
fn two_places(variable: &str) -> Failure {
    let text = format!("the URL and {variable} both name servers: unset {variable}, or leave out the URL");
    Failure::new(exit::USAGE, text)
}

/// The variables that say which servers a command goes to.
const NAMES_SERVERS: [&str; 3] =
    ["LEASEHOLD_REDIS__ADDRESSES", "LEASEHOLD_REDIS__TOPOLOGY", "LEASEHOLD_REDIS__SERVICE_NAME"];

fn read(file: &Path) -> Result<ConfigFile, Failure> {
    let is_yaml = file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    if !is_yaml {
        return ConfigFile::read(file).map_err(refused);
    }
    // What has no effect on locks concerns the Java client alone.
    let (read, _ignored) = ConfigFile::from_redisson_yaml(file).map_err(refused)?;
    Ok(read)
}

fn refused(error: ConfigFileError) -> Failure {
    Failure::new(exit::CONFIG, error.to_string())
}

/// Builds an engine, which waits for its servers for `unavailable_after_ms`.
///
/// # Errors
/// No server was ready in time, or refuses.
pub(crate) async fn engine(configuration: ConfigFile) -> Result<Engine, Failure> {
    let transport = RedisTransport::new(configuration.redis);
    Ok(Engine::builder(transport).config(configuration.engine).build().await?)
}

const VISIBLE: &str = "the password in --url is visible to every user of this machine, as `ps` shows; \
                       set LEASEHOLD_URL, or give --config FILE";
