//! The settings of a URL, as overrides. Pure.

use super::{
    super::{Password, RedisConfig, RedisTopology, credentials::Parts},
    error::ConfigFileError,
    overrides::Override,
};

/// Refuses a variable for what the URL says. It would win, so a program would go to servers that its URL does not name,
/// and send them the password of the URL.
///
/// # Errors
/// The first such variable by name.
pub(super) fn refuse_rivals(
    url: &str,
    redis: &RedisConfig,
    variables: &[Override],
) -> Result<(), ConfigFileError> {
    let named = named(url, redis);
    let what = |variable: &Override| named.iter().find(|(key, _)| variable.is_of_redis(key));
    match variables.iter().find_map(|variable| Some((variable.variable(), what(variable)?.1))) {
        Some((variable, what)) => Err(ConfigFileError::of_variable_against_url(variable, what)),
        None => Ok(()),
    }
}

/// The keys that the URL sets, with what they name. A scheme without a service name says that there is none.
fn named(url: &str, redis: &RedisConfig) -> Vec<(&'static str, &'static str)> {
    let keys = [
        (true, "topology", "servers"),
        (true, "addresses", "servers"),
        (true, "service_name", "servers"),
        (has_database(url), "database", "a database"),
        (redis.username.is_some(), "username", "a user"),
        (redis.password.is_some(), "password", "a password"),
        (redis.sentinel_username.is_some(), "sentinel_username", "a user of the sentinels"),
        (redis.sentinel_password.is_some(), "sentinel_password", "a password of the sentinels"),
    ];
    keys.into_iter().filter(|(is_named, ..)| *is_named).map(|(_, key, what)| (key, what)).collect()
}

// Without a path it is database 0 by default.
fn has_database(url: &str) -> bool {
    Parts::of(url.trim()).is_some_and(|parts| !parts.path.trim_matches('/').is_empty())
}

/// The settings that the URL has.
pub(super) fn overrides(redis: &RedisConfig) -> Vec<Override> {
    let addresses: Vec<_> = redis.addresses.iter().map(ToString::to_string).collect();
    let texts = [
        ("topology", Some(name_of(redis.topology).to_owned())),
        ("addresses", Some(addresses.join(","))),
        ("service_name", redis.service_name.clone()),
        ("username", redis.username.clone()),
        ("password", redis.password.as_ref().map(text_of)),
        ("sentinel_username", redis.sentinel_username.clone()),
        ("sentinel_password", redis.sentinel_password.as_ref().map(text_of)),
        ("database", Some(redis.database.to_string())),
    ];
    let text = |(key, text): (&str, Option<String>)| Some(Override::of_text(URL, key, text?));
    let tls = redis.tls.as_ref().map(|_| Override::of_section(URL, "tls"));
    texts.into_iter().filter_map(text).chain(tls).collect()
}

// A URL gives a password as a text, and an empty one is refused where the URL is read.
fn text_of(password: &Password) -> String {
    password.read("password").unwrap_or_default()
}

fn name_of(topology: RedisTopology) -> &'static str {
    match topology {
        RedisTopology::Single => "single",
        RedisTopology::Sentinel => "sentinel",
        RedisTopology::Cluster => "cluster",
    }
}

/// What errors say in place of a file name or a variable.
pub(super) const URL: &str = "URL";
