//! URLs with the most common settings, in fred's format. Pure.
//!
//! They are not parsed by fred, because fred loads the system's certificates while it parses `rediss://`, ignores
//! unknown parts, and puts the first node last. A test compares both parsers for URLs that both accept.

use percent_encoding::percent_decode_str;
use url::{ParseError, Url};

use super::{
    Address, RedisConfig, RedisTopology,
    credentials::without_credentials,
    error::ConfigError,
    password::{Password, Secret},
    tls::TlsConfig,
};

impl RedisConfig {
    /// Parses a URL:
    ///
    /// ```text
    /// redis://[[username]:password@]host[:port][/database]
    /// redis-sentinel://[[username]:password@]host[:port][/database]?sentinelServiceName=name[&node=host:port]...
    ///     [&sentinelUsername=name][&sentinelPassword=password]
    /// redis-cluster://[[username]:password@]host[:port][?node=host:port[&node=host:port]...]
    /// ```
    ///
    /// The schemes with `rediss` in place of `redis` use TLS with default settings. Every `redis` may be written
    /// `valkey`. Characters with a meaning in URLs are written as `%XX`. The default port is 6379, that of a
    /// sentinel 26379.
    ///
    /// # Errors
    /// [`ConfigError`] if the URL is not valid, or its settings contradict each other. The text never contains a
    /// password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let read = Reading { url, parsed: Url::parse(url).map_err(|error| unreadable(url, error))? };
        let config = read.config()?;
        if config.username.is_some() && config.password.is_none() {
            return Err(bad_url(url, NO_PASSWORD)); // hidden: it may be a password in the wrong place
        }
        config.check().map_err(ConfigError::without_name)?;
        Ok(config)
    }
}

struct Reading<'u> {
    url: &'u str,
    parsed: Url,
}

impl Reading<'_> {
    fn config(&self) -> Result<RedisConfig, ConfigError> {
        let (topology, tls) = self.scheme()?;
        let mut config = RedisConfig::of(topology, vec![self.first_address(topology)?]);
        config.tls = tls.then(TlsConfig::default);
        config.username = Some(self.decoded(self.parsed.username())?).filter(|name| !name.is_empty());
        config.password = self.password(self.parsed.password().unwrap_or_default())?;
        config.database = self.database()?;
        self.read_query(&mut config)?;
        self.check_service_name(&config)?;
        Ok(config)
    }

    // The check of the configuration names the setting, which a URL spells otherwise.
    fn check_service_name(&self, config: &RedisConfig) -> Result<(), ConfigError> {
        let has_name = config.service_name.as_deref().is_some_and(|name| !name.trim().is_empty());
        let is_missing = config.topology == RedisTopology::Sentinel && !has_name;
        if is_missing { Err(self.bad(SERVICE_NAME)) } else { Ok(()) }
    }

    fn scheme(&self) -> Result<(RedisTopology, bool), ConfigError> {
        let (base, topology) = match self.parsed.scheme().split_once('-') {
            None => (self.parsed.scheme(), RedisTopology::Single),
            Some((base, "sentinel")) => (base, RedisTopology::Sentinel),
            Some((base, "cluster")) => (base, RedisTopology::Cluster),
            Some(_) => return Err(self.bad(SCHEMES)),
        };
        match base {
            "redis" | "valkey" => Ok((topology, false)),
            "rediss" | "valkeys" => Ok((topology, true)),
            _ => Err(self.bad(SCHEMES)),
        }
    }

    fn first_address(&self, topology: RedisTopology) -> Result<Address, ConfigError> {
        let host = self.decoded(self.parsed.host_str().unwrap_or_default())?;
        let address = Address::new(host, self.parsed.port().unwrap_or(topology.default_port()));
        if address.has_a_host() { Ok(address) } else { Err(self.bad(spelling(self.url))) }
    }

    fn database(&self) -> Result<u8, ConfigError> {
        match self.parsed.path().trim_start_matches('/') {
            "" => Ok(0),
            number => number.parse().map_err(|_| self.bad(spelling(self.url))),
        }
    }

    fn read_query(&self, config: &mut RedisConfig) -> Result<(), ConfigError> {
        for (key, value) in self.parsed.query_pairs() {
            match (key.as_ref(), config.topology) {
                ("node", RedisTopology::Sentinel | RedisTopology::Cluster) => {
                    let port = config.topology.default_port();
                    config.addresses.push(Address::read(&value, port).ok_or_else(|| self.bad(NODE))?);
                }
                ("sentinelServiceName", RedisTopology::Sentinel) => config.service_name = Some(value.into()),
                ("sentinelUsername", RedisTopology::Sentinel) => {
                    config.sentinel_username = Some(value.into())
                }
                ("sentinelPassword", RedisTopology::Sentinel) if value.is_empty() => {
                    return Err(self.bad(EMPTY_PASSWORD));
                }
                ("sentinelPassword", RedisTopology::Sentinel) => {
                    config.sentinel_password = Some(Password::Value(Secret::new(value)));
                }
                (_, RedisTopology::Single) => return Err(self.bad(NO_QUERY)),
                (_, RedisTopology::Cluster) => return Err(self.bad(CLUSTER_QUERY)),
                (_, RedisTopology::Sentinel) => return Err(self.bad(SENTINEL_QUERY)),
            }
        }
        Ok(())
    }

    fn password(&self, text: &str) -> Result<Option<Password>, ConfigError> {
        let text = self.decoded(text)?;
        Ok((!text.is_empty()).then(|| Password::Value(Secret::new(text))))
    }

    fn decoded(&self, text: &str) -> Result<String, ConfigError> {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(Into::into).map_err(|_| self.bad("the bytes written as %XX must be UTF-8"))
    }

    fn bad(&self, remedy: &'static str) -> ConfigError {
        bad_url(self.url, remedy)
    }
}

fn bad_url(url: &str, remedy: &'static str) -> ConfigError {
    ConfigError::new("url", without_credentials(url), remedy)
}

// The port is shown with the URL if it is a number. Another text may be a password without its @.
fn unreadable(url: &str, error: ParseError) -> ConfigError {
    let is_port = error == ParseError::InvalidPort;
    bad_url(url, if is_port { PORT } else { spelling(url) })
}

/// How a URL of the same scheme is spelled.
fn spelling(url: &str) -> &'static str {
    match url.split_once("://").and_then(|(scheme, _)| scheme.split_once('-')) {
        Some((_, "sentinel")) => SENTINEL_SPELLING,
        Some((_, "cluster")) => CLUSTER_SPELLING,
        _ => SPELLING,
    }
}

const SPELLING: &str = "spell it redis://[[username]:password@]host[:port][/database]";
const SENTINEL_SPELLING: &str = "spell it redis-sentinel://[[username]:password@]host[:port][/database]?sentinelServiceName=name[&node=host:port]...";
const CLUSTER_SPELLING: &str =
    "spell it redis-cluster://[[username]:password@]host[:port][?node=host:port[&node=host:port]...]";
const SERVICE_NAME: &str = "add ?sentinelServiceName=name, as in redis-sentinel://host:port?sentinelServiceName=name&node=host:port; name is that of the master in `sentinel monitor`";
const PORT: &str =
    "the port must be a number from 1 to 65535; write host:port, and a password as :password@host:port";
const SCHEMES: &str = "start it with redis://, redis-sentinel:// or redis-cluster://, or over TLS with rediss://, rediss-sentinel:// or rediss-cluster://";
const NO_PASSWORD: &str = "the URL has a user but no password; write a password alone as redis://:password@host, with a user as redis://user:password@host";
const EMPTY_PASSWORD: &str = "sentinelPassword is empty; write the password of the sentinels after the =, or leave sentinelPassword out";
const NODE: &str = "write a further node as node=host:port";
const NO_QUERY: &str = "leave the query out: one server has no options in its URL";
const CLUSTER_QUERY: &str = "only node=host:port is allowed after the ?";
const SENTINEL_QUERY: &str =
    "only sentinelServiceName, sentinelUsername, sentinelPassword and node are allowed after the ?";

#[cfg(test)]
mod tests {
    use fred::types::config::{Config, ServerConfig};

    use super::*;

    fn addresses(config: &RedisConfig) -> Vec<String> {
        config.addresses.iter().map(Address::to_string).collect()
    }

    fn read(password: &Option<Password>) -> Option<String> {
        password.as_ref().map(|password| password.read("password").unwrap())
    }

    #[test]
    fn urls_are_spelled_as_everywhere() {
        let config = RedisConfig::from_url("redis://app:p%40ss@cache.internal:6380/3").unwrap();
        assert_eq!(addresses(&config), ["cache.internal:6380"]);
        assert_eq!((config.username.as_deref(), config.database), (Some("app"), 3));
        assert_eq!((read(&config.password).as_deref(), config.tls), (Some("p@ss"), None));
        let config = RedisConfig::from_url("valkeys://cache").unwrap();
        assert_eq!((addresses(&config), config.tls), (vec!["cache:6379".into()], Some(TlsConfig::default())));
        assert_eq!(addresses(&RedisConfig::from_url("redis://[::1]:6380").unwrap()), ["[::1]:6380"]);
        let config = RedisConfig::from_url("redis://:secret@cache").unwrap();
        assert!(config.username.is_none() && config.password.is_some());
    }

    #[test]
    fn sentinels_and_clusters_are_named_in_the_query() {
        let url = "rediss-sentinel://a:b@s1/2?sentinelServiceName=m&node=s2:7&node=s3&sentinelUsername=c&sentinelPassword=d%26";
        let config = RedisConfig::from_url(url).unwrap();
        assert_eq!((config.topology, config.database), (RedisTopology::Sentinel, 2));
        assert_eq!(addresses(&config), ["s1:26379", "s2:7", "s3:26379"]);
        assert_eq!(
            (config.service_name.as_deref(), config.sentinel_username.as_deref()),
            (Some("m"), Some("c"))
        );
        assert_eq!(
            (read(&config.password), read(&config.sentinel_password)),
            (Some("b".into()), Some("d&".into()))
        );
        assert!(config.tls.is_some());
        let config = RedisConfig::from_url("valkey-cluster://n1?node=n2:7001&node=[::1]:7002").unwrap();
        assert_eq!((config.topology, config.tls.is_some()), (RedisTopology::Cluster, false));
        assert_eq!(addresses(&config), ["n1:6379", "n2:7001", "[::1]:7002"]);
    }

    #[test]
    fn fred_reads_the_same() {
        for url in [
            "redis://cache",
            "redis://:p%2Fw@cache:1/9",
            "valkey://app:pw@[::1]:6380",
            "redis-cluster://app:pw@n1:7000?node=n2:7001&node=n3:7002",
            "redis-sentinel://s1?sentinelServiceName=my%20master&node=s2:26380",
        ] {
            let (ours, freds) = (RedisConfig::from_url(url).unwrap(), Config::from_url(url).unwrap());
            let (topology, service_name) = match &freds.server {
                ServerConfig::Centralized { .. } => (RedisTopology::Single, None),
                ServerConfig::Clustered { .. } => (RedisTopology::Cluster, None),
                ServerConfig::Sentinel { service_name, .. } => {
                    (RedisTopology::Sentinel, Some(service_name.clone()))
                }
                ServerConfig::Unix { path } => panic!("{url} is read as a path: {path:?}"),
            };
            let mut nodes: Vec<_> = freds.server.hosts().iter().map(ToString::to_string).collect();
            nodes.rotate_right(1);
            assert_eq!((ours.topology, &ours.service_name), (topology, &service_name), "{url}");
            assert_eq!(addresses(&ours), nodes, "{url}");
            assert_eq!((&ours.username, read(&ours.password)), (&freds.username, freds.password), "{url}");
            assert_eq!(ours.database, freds.database.unwrap_or(0), "{url}");
        }
    }

    #[test]
    fn a_bad_url_is_named_without_its_password() {
        for (url, remedy) in [
            ("redis://u:hunter2@cache:port", "the port must be"),
            ("redis://u:hunter2@cache:70000", "redis://***@cache:70000: the port must be"),
            ("redis-cluster://u:hunter2@cache/db/0", "spell it redis-cluster://"),
            ("redis-sentinel://s1,s2?sentinelServiceName=m", "host[:port][/database]?sentinelServiceName="),
            ("redis-sentinel://u:hunter2@s1/mymaster", "spell it redis-sentinel://"),
            (
                "redis-sentinel://s1?sentinelServiceName=",
                "redis-sentinel://host:port?sentinelServiceName=name",
            ),
            ("redis://u:hunter2@cache/db/0", "spell it"),
            ("redis://u:hunter2@cache/999", "spell it"),
            ("redis-ring://u:hunter2@cache", "start it with"),
            ("redis-cluster://u:hunter2@cache/1", "leave it out"),
            ("redis-cluster://u:hunter2@cache?nodes=x", "only node"),
            ("redis-cluster://u:hunter2@cache?node=x:y:z", "node=host:port"),
            ("redis-sentinel://u:hunter2@cache", "add ?sentinelServiceName=name"),
            (
                "redis-sentinel://cache?sentinelServiceName=m&sentinelPasswort=hunter2",
                "only sentinelServiceName",
            ),
            ("redis://u:hunter2@cache?x=1", "leave the query out"),
            ("http://u:hunter2@cache", "start it with"),
            ("u:hunter2@cache", "start it with"),
            ("redis://u:hun@ter2@", "spell it"),
            ("redis://u:hunter2", "the port must be"),
            ("redis://u:%FFhunter2@h", "UTF-8"),
            ("redis://hunter2@cache", "write a password alone"),
            ("redis-sentinel://s1?sentinelServiceName=m&sentinelPassword=abc@hunter2&bad=1", "only sentinel"),
            ("redis-sentinel://s1?sentinelServiceName=m&sentinelUsername=hunter2", "give the password too"),
            ("redis://u:p?hunter2@cache", "the port must be"),
            ("redis://u:12?hunter2@cache", "leave the query out"),
            ("redis://u:p#hunter2@cache", "the port must be"),
            ("redis://cache/0?hunter2", "leave the query out"),
        ] {
            let error = RedisConfig::from_url(url).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(remedy), "{url}: {shown}");
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
        }
    }
}
