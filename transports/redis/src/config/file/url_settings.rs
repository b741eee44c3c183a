//! The settings of a URL, as overrides. Pure.

use super::{
    super::{Password, RedisConfig, RedisTopology},
    overrides::Override,
};

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
