//! The settings, and the URLs that spell the most used ones. Pure.

mod address;
mod password;
mod tls;

use std::{fmt, time::Duration};

use fred::types::config::{Config, ServerConfig};
use serde::Deserialize;

pub use self::{
    address::Address,
    password::{Password, Secret},
    tls::TlsConfig,
};

/// The settings of a [`RedisTransport`](crate::RedisTransport). The README has them as a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// How the servers work together. Default: `single`.
    #[serde(default)]
    pub topology: RedisTopology,
    /// `single`: the server. `sentinel`: the sentinels. `cluster`: some nodes; the others are found. No default.
    pub addresses: Vec<Address>,
    /// `sentinel`: the name under which the sentinels know the master.
    #[serde(default)]
    pub service_name: Option<String>,
    /// The user to authenticate as; needs `password`. Default: none, the server's default user.
    #[serde(default)]
    pub username: Option<String>,
    /// The password to authenticate with. Default: none.
    #[serde(default)]
    pub password: Option<Password>,
    /// `sentinel`: the user to authenticate as to the sentinels; needs `sentinel_password`. Default: none.
    #[serde(default)]
    pub sentinel_username: Option<String>,
    /// `sentinel`: the password for the sentinels. Default: none.
    #[serde(default)]
    pub sentinel_password: Option<Password>,
    /// The number of the database. Default: 0.
    #[serde(default)]
    pub database: u8,
    /// TLS to servers and sentinels. Default: none, plain connections.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// How the end of a hold is told. Default: `auto`.
    #[serde(default)]
    pub notices: NoticeKind,
    /// How renewals of many locks are put together. Default: `auto`.
    #[serde(default)]
    pub batching: Batching,
    /// How many requests may be in flight on one connection; more wait for their turn. Default: 4096.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: usize,
    /// How many leases one renewal may carry. The server is blocked for about 1 µs a lease. Default: 100.
    #[serde(default = "default_batch_leases_max")]
    pub batch_leases_max: usize,
    /// For how long the subscription to a lock's channel outlives the last watch of it, in ms. Default: 5000.
    #[serde(default = "default_notices_warm_ms")]
    pub notices_warm_ms: u64,
    /// How many subscriptions that nobody watches are kept at most; the oldest go first. Default: 10,000.
    #[serde(default = "default_notices_warm_max")]
    pub notices_warm_max: usize,
    /// How long written bytes may stay without a sign of the server before the kernel gives the connection up, in ms
    /// (`TCP_USER_TIMEOUT`). Default: 2000.
    #[serde(default = "default_tcp_user_timeout_ms")]
    pub tcp_user_timeout_ms: u64,
}

/// How the servers work together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RedisTopology {
    /// One server. Also a master with replicas but without sentinels: name the master.
    #[default]
    Single,
    /// A master that sentinels watch and replace.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// How the end of a hold is told to those who wait.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// As Redisson does: sharded on a cluster that can do it (Redis 7), classic otherwise.
    #[default]
    Auto,
    /// PUBLISH and SUBSCRIBE.
    Classic,
    /// SPUBLISH and SSUBSCRIBE; needs a cluster of Redis 7 or later.
    Sharded,
    /// Both, for a fleet in which some clients use the one and some the other.
    Both,
}

/// How renewals of many locks are put together on a cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Batching {
    /// By node where a probe at connect shows that the server can do it (Redis 7), by slot otherwise.
    #[default]
    Auto,
    /// One call per slot, for servers and proxies that check the keys of a script.
    BySlot,
}

/// A setting that cannot work: which one, its value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    value: String,
    remedy: &'static str,
}

impl RedisConfig {
    /// One server at `host` and `port`; everything else by default.
    pub fn single(host: impl Into<String>, port: u16) -> Self {
        Self::of(RedisTopology::Single, vec![Address::new(host, port)])
    }

    /// The master that these sentinels know by `service_name`; everything else by default.
    pub fn sentinel(sentinels: impl IntoIterator<Item = Address>, service_name: impl Into<String>) -> Self {
        let sentinels = sentinels.into_iter().collect();
        Self { service_name: Some(service_name.into()), ..Self::of(RedisTopology::Sentinel, sentinels) }
    }

    /// The cluster that these nodes belong to; everything else by default.
    pub fn cluster(nodes: impl IntoIterator<Item = Address>) -> Self {
        Self::of(RedisTopology::Cluster, nodes.into_iter().collect())
    }

    fn of(topology: RedisTopology, addresses: Vec<Address>) -> Self {
        Self {
            topology,
            addresses,
            service_name: None,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            database: 0,
            tls: None,
            notices: NoticeKind::default(),
            batching: Batching::default(),
            in_flight_max: default_in_flight_max(),
            batch_leases_max: default_batch_leases_max(),
            notices_warm_ms: default_notices_warm_ms(),
            notices_warm_max: default_notices_warm_max(),
            tcp_user_timeout_ms: default_tcp_user_timeout_ms(),
        }
    }

    /// Reads `redis://[[username]:password@]host[:port][/database]` (`valkey://` is the same). Characters with a
    /// meaning in URLs are written as `%XX` in username and password.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        check_scheme(url)?;
        let parsed = Config::from_url_centralized(url).map_err(|_| bad_url(url, SPELLING))?;
        let ServerConfig::Centralized { server } = parsed.server else { return Err(bad_url(url, SPELLING)) };
        let mut config = Self::single(server.host.trim_matches(['[', ']']), server.port);
        config.username = parsed.username;
        config.password = parsed.password.map(|text| Password::Value(Secret::new(text)));
        config.database = parsed.database.unwrap_or(0);
        config.check()?;
        Ok(config)
    }

    /// Checks what can be checked without a server. [`open`](leasehold::transport::Transport::open) does it too.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        refuse(self.addresses.is_empty(), "addresses", "[]", "give at least one address")?;
        for address in &self.addresses {
            refuse(
                address.host.trim().is_empty() || address.port == 0,
                "addresses",
                address,
                "write host:port; Redis listens on 6379",
            )?;
        }
        self.check_credentials()?;
        refuse(
            self.in_flight_max == 0,
            "in_flight_max",
            "0",
            "allow at least 1 request in flight; the default is 4096",
        )?;
        // tokio's semaphore ends there.
        refuse(
            self.in_flight_max > IN_FLIGHT_LIMIT,
            "in_flight_max",
            self.in_flight_max,
            "use at most 1,000,000",
        )?;
        refuse(
            self.batch_leases_max == 0,
            "batch_leases_max",
            "0",
            "allow at least 1 lease; the default is 100",
        )?;
        refuse(
            self.batch_leases_max > BATCH_LIMIT,
            "batch_leases_max",
            self.batch_leases_max,
            "use at most 1000: the server is blocked for 1 ms by a batch of that size",
        )?;
        refuse(
            self.tcp_user_timeout_ms == 0,
            "tcp_user_timeout_ms",
            "0",
            "give the kernel a limit; the default is 2000",
        )
    }

    fn check_credentials(&self) -> Result<(), ConfigError> {
        let Some(username) = &self.username else { return Ok(()) };
        refuse(
            self.password.is_none(),
            "username",
            format!("{username:?}"),
            "give `password` too, or leave `username` out",
        )
    }

    pub(crate) fn notices_warm(&self) -> Duration {
        Duration::from_millis(self.notices_warm_ms)
    }
}

fn check_scheme(url: &str) -> Result<(), ConfigError> {
    let scheme = url.split("://").next().unwrap_or_default();
    match scheme {
        "redis" | "valkey" if url.contains('?') => {
            Err(bad_url(url, "leave the query out: one server has no options in its URL"))
        }
        "redis" | "valkey" if url.contains("://") => Ok(()),
        "rediss" | "valkeys" => {
            Err(bad_url(url, "TLS is not supported yet; use redis:// inside a trusted network"))
        }
        _ if scheme.contains("cluster") || scheme.contains("sentinel") => {
            Err(bad_url(url, "clusters and sentinels are not supported yet; name one server with redis://"))
        }
        _ => Err(bad_url(url, SPELLING)),
    }
}

fn bad_url(url: &str, remedy: &'static str) -> ConfigError {
    ConfigError { field: "url", value: without_credentials(url), remedy }
}

/// The URL with what stands before its last `@` taken out. Without an `@` it may have been forgotten, so everything is
/// taken out that does not read as host and port.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match rest.rsplit_once('@') {
        Some((_, server)) => format!("{scheme}://***@{server}"),
        None if reads_as_server(rest) => url.to_owned(),
        None => format!("{scheme}://***"),
    }
}

fn reads_as_server(text: &str) -> bool {
    let behind_host = text.split_once(':').map_or("", |(_, behind)| behind);
    let port = behind_host.split(['/', '?']).next().unwrap_or_default();
    port.bytes().all(|byte| byte.is_ascii_digit())
}

fn refuse(
    wrong: bool,
    field: &'static str,
    value: impl ToString,
    remedy: &'static str,
) -> Result<(), ConfigError> {
    if wrong { Err(ConfigError { field, value: value.to_string(), remedy }) } else { Ok(()) }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}: {}", self.field, self.value, self.remedy)
    }
}

impl std::error::Error for ConfigError {}

const SPELLING: &str = "spell it redis://[[username]:password@]host[:port][/database]";
const IN_FLIGHT_LIMIT: usize = 1_000_000;
const BATCH_LIMIT: usize = 1_000;

fn default_in_flight_max() -> usize {
    4096
}
fn default_batch_leases_max() -> usize {
    100
}
fn default_notices_warm_ms() -> u64 {
    5_000
}
fn default_notices_warm_max() -> usize {
    10_000
}
fn default_tcp_user_timeout_ms() -> u64 {
    2_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_spelled_as_everywhere() {
        let config = RedisConfig::from_url("redis://app:p%40ss@cache.internal:6380/3").unwrap();
        assert_eq!(config.addresses[0].to_string(), "cache.internal:6380");
        assert_eq!((config.username.as_deref(), config.database), (Some("app"), 3));
        assert_eq!(config.password.unwrap().read().unwrap(), "p@ss");
        let config = RedisConfig::from_url("valkey://cache").unwrap();
        assert_eq!(
            (config.addresses[0].to_string().as_str(), config.username.is_none()),
            ("cache:6379", true)
        );
        assert_eq!(
            RedisConfig::from_url("redis://[::1]:6380").unwrap().addresses[0].to_string(),
            "[::1]:6380"
        );
        assert_eq!(RedisConfig::single("::1", 6380).addresses[0].to_string(), "[::1]:6380");
        let config = RedisConfig::from_url("redis://:secret@cache").unwrap();
        assert!(config.username.is_none() && config.password.is_some());
    }

    #[test]
    fn a_bad_url_is_named_without_its_password() {
        for (url, remedy) in [
            ("redis://u:hunter2@cache:port", "spell it"),
            ("redis://u:hunter2@cache/db/0", "spell it"),
            ("redis://u:hunter2@cache/999", "spell it"),
            ("rediss://u:hunter2@cache", "TLS"),
            ("redis-cluster://u:hunter2@cache", "not supported yet"),
            ("redis-sentinel://u:hunter2@cache", "not supported yet"),
            ("redis://u:hunter2@cache?x=1", "leave the query out"),
            ("http://u:hunter2@cache", "spell it"),
            ("u:hunter2@cache", "spell it"),
            ("redis://u:hun@ter2@", "spell it"),
            ("redis://u:hunter2", "spell it"),
        ] {
            let error = RedisConfig::from_url(url).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(remedy) && shown.contains("url"), "{shown}");
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
        }
        let error = RedisConfig::from_url("redis://app@cache").unwrap_err();
        assert!(error.to_string().contains("password"), "{error}");
    }

    #[test]
    fn a_configuration_file_has_no_unknown_fields() {
        let text = r#"{ "addresses": ["cache"], "password": { "env": "P" }, "database": 2 }"#;
        let config: RedisConfig = serde_json::from_str(text).unwrap();
        assert_eq!((config.addresses[0].to_string().as_str(), config.in_flight_max), ("cache:6379", 4096));
        for wrong in [
            r#"{ "addresses": ["cache"], "in_flight": 2 }"#,
            r#"{ "addresses": ["cache"], "tls": { "verify": false } }"#,
            r#"{ "addresses": ["cache"], "topology": "ring" }"#,
            r#"{ }"#,
        ] {
            assert!(serde_json::from_str::<RedisConfig>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_bad_value_is_named_with_its_remedy() {
        let good = RedisConfig::single("cache", 6379);
        assert_eq!(good.check(), Ok(()));
        let bad: [(RedisConfig, &str); 6] = [
            (RedisConfig::single(" ", 6379), "addresses"),
            (RedisConfig::cluster([]), "addresses"),
            (RedisConfig { username: Some("app".into()), ..good.clone() }, "username"),
            (RedisConfig { in_flight_max: 0, ..good.clone() }, "in_flight_max"),
            (RedisConfig { batch_leases_max: 5_000, ..good.clone() }, "batch_leases_max"),
            (RedisConfig { tcp_user_timeout_ms: 0, ..good.clone() }, "tcp_user_timeout_ms"),
        ];
        for (config, field) in bad {
            assert!(config.check().unwrap_err().to_string().starts_with(&format!("`{field}` is ")));
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let mut config = RedisConfig::single("cache", 6379);
        config.password = Some(Password::Value(Secret::new("hunter2")));
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
