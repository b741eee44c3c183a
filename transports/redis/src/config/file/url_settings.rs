//! The settings of a URL, as overrides. Pure.

use super::{
    super::{Password, RedisConfig, RedisTopology},
    overrides::Override,
};

/// The settings that the URL has.
pub(super) fn overrides(redis: &RedisConfig) -> Vec<Override> {
    let addresses: Vec<_> = redis.addresses.iter().map(ToString::to_string).collect();
    let secret = |password: &Option<Password>| password.as_ref().and_then(|it| it.read("password").ok());
    let settings = [
        ("topology", Some(name_of(redis.topology).to_owned())),
        ("addresses", Some(addresses.join(","))),
        ("service_name", redis.service_name.clone()),
        ("username", redis.username.clone()),
        ("password", secret(&redis.password)),
        ("sentinel_username", redis.sentinel_username.clone()),
        ("sentinel_password", secret(&redis.sentinel_password)),
        ("database", Some(redis.database.to_string())),
        ("tls", redis.tls.as_ref().map(|_| "{}".to_owned())),
    ];
    let set = |(key, value): (&str, Option<String>)| Some(Override::new(URL, &["redis", key], value?));
    settings.into_iter().filter_map(set).collect()
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
