//! URLs with the most common settings, in fred's format. Pure.
//!
//! They are not parsed by fred, because fred loads the system's certificates while it parses `rediss://`, ignores
//! unknown parts, and puts the first node last. A test compares both parsers for URLs that both accept. In every part `%XX`
//! stands for a byte, and every other character for itself.

use percent_encoding::percent_decode_str;

use super::{
    Address, RedisConfig, RedisTopology,
    credentials::{Parts, shown},
    error::ConfigError,
    host,
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
    /// `valkey`. In every part `%XX` stands for a byte, and every other character for itself (`+`, too). `@`, `/`, `?`,
    /// `#` and `%` in a password are written so: `%40`, `%2F`, `%3F`, `%23`, `%25`. A fragment (`#`) is refused. The
    /// default port is 6379, that of a sentinel 26379.
    ///
    /// # Errors
    /// [`ConfigError`] if the URL is not valid, or its settings contradict each other. The text never contains a
    /// password.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let url = url.trim();
        let read = Reading::of(url)?;
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
    topology: RedisTopology,
    tls: bool,
    parts: Parts<'u>,
}

impl<'u> Reading<'u> {
    fn of(url: &'u str) -> Result<Self, ConfigError> {
        let (scheme, _) = url.split_once(':').unwrap_or_default();
        let (topology, tls) = of_scheme(scheme).ok_or_else(|| bad_url(url, SCHEMES))?;
        let bad = |remedy| Err(bad_url(url, remedy));
        match Parts::of(url) {
            Some(parts) if parts.fragment.is_some() => bad(FRAGMENT),
            Some(_) if url.contains(char::is_control) => bad(CONTROL),
            Some(parts) if parts.scheme == scheme => Ok(Self { url, topology, tls, parts }),
            _ => bad(spelling(url)),
        }
    }

    fn config(&self) -> Result<RedisConfig, ConfigError> {
        let mut config = RedisConfig::of(self.topology, vec![self.first_address()?]);
        config.tls = self.tls.then(TlsConfig::default);
        let login = self.parts.login.unwrap_or_default();
        let (username, password) = login.split_once(':').unwrap_or((login, ""));
        config.username = Some(self.decoded(username)?).filter(|name| !name.is_empty());
        config.password = self.password(password)?;
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

    fn first_address(&self) -> Result<Address, ConfigError> {
        let (host, port) = host::split(self.parts.server);
        let port = match port.map(|port| self.decoded(port)).transpose()?.as_deref() {
            None | Some("") => self.topology.default_port(),
            Some(port) => host::port_of(port).ok_or_else(|| self.bad(PORT))?,
        };
        let address = Address::new(self.decoded(host)?, port);
        if address.has_a_host() { Ok(address) } else { Err(self.bad(spelling(self.url))) }
    }

    fn database(&self) -> Result<u8, ConfigError> {
        let number = self.decoded(self.parts.path.trim_start_matches('/'))?;
        let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
        match number.as_str() {
            "" => Ok(0),
            number => number.parse().ok().filter(|_| is_digits).ok_or_else(|| self.bad(spelling(self.url))),
        }
    }

    fn read_query(&self, config: &mut RedisConfig) -> Result<(), ConfigError> {
        let pairs = self.parts.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        for pair in pairs {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.read_option(config, &self.decoded(key)?, self.decoded(value)?)?;
        }
        Ok(())
    }

    fn read_option(&self, config: &mut RedisConfig, key: &str, value: String) -> Result<(), ConfigError> {
        match (key, config.topology) {
            ("node", RedisTopology::Sentinel | RedisTopology::Cluster) => {
                let port = config.topology.default_port();
                config.addresses.push(Address::read(&value, port).ok_or_else(|| self.bad(NODE))?);
            }
            ("sentinelServiceName", RedisTopology::Sentinel) => config.service_name = Some(value),
            ("sentinelUsername", RedisTopology::Sentinel) => config.sentinel_username = Some(value),
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

/// The topology of a scheme, and whether it uses TLS. `None`: it is none of ours.
fn of_scheme(scheme: &str) -> Option<(RedisTopology, bool)> {
    let (base, topology) = match scheme.split_once('-') {
        None => (scheme, RedisTopology::Single),
        Some((base, "sentinel")) => (base, RedisTopology::Sentinel),
        Some((base, "cluster")) => (base, RedisTopology::Cluster),
        Some(_) => return None,
    };
    match base {
        "redis" | "valkey" => Some((topology, false)),
        "rediss" | "valkeys" => Some((topology, true)),
        _ => None,
    }
}

// A text without a scheme may be a bare password, so nothing of it is shown.
fn bad_url(url: &str, remedy: &'static str) -> ConfigError {
    ConfigError::new("url", if url.contains("://") { shown(url) } else { "***".to_owned() }, remedy)
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
const FRAGMENT: &str = "write a # in a password or a name as %23, and leave out what else begins with #: a fragment has no meaning here";
const CONTROL: &str =
    "a line break, a tab or another control character is in it; write it as %XX, or leave it out";
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
    fn in_every_part_percent_stands_for_a_byte_and_every_other_character_for_itself() {
        let url = "redis-sentinel://a+%2B%20b:c+%23%40 d@s%31:%37/%33?sentinelServiceName=m+%2D1&node=s2%3A8&sentinel%55sername=%26+e&sentinelPassword=f+%3D=";
        let config = RedisConfig::from_url(&format!(" {url}\n")).unwrap();
        assert_eq!((addresses(&config), config.database), (vec!["s1:7".into(), "s2:8".into()], 3));
        let names = [&config.username, &config.service_name, &config.sentinel_username];
        assert_eq!(names.map(|name| name.as_deref().unwrap()), ["a++ b", "m+-1", "&+e"]);
        let passwords = [&config.password, &config.sentinel_password].map(|password| read(password).unwrap());
        assert_eq!(passwords, ["c+#@ d", "f+=="]);
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
            ("redis://cache/0?hunter2", "leave the query out"),
            ("redis://u:p#hunter2@cache", "%23"),
            ("redis://u:57#hunter2@cache/0", "%23"),
            ("redis://cache#hunter2", "%23"),
            ("redis-cluster://cache/#hunter2", "%23"),
            ("redis://u:hun\tter2@cache", "control character"),
            ("redis://cache/+3", "spell it"),
            ("redis://cache:+1", "the port must be"),
            ("redis://cache,password=hunter2", "spell it redis://"),
            ("redis://cache;password=hunter2", "spell it redis://"),
            ("redis://cache&password=hunter2", "spell it redis://"),
            ("redis://cache password=hunter2", "spell it redis://"),
            ("redis://cache/0,password=hunter2", "spell it redis://"),
            ("redis-sentinel://h,password=hunter2?sentinelServiceName=m", "spell it redis-sentinel://"),
            ("redis-sentinel://h/m,password=hunter2", "spell it redis-sentinel://"),
            ("redis-sentinel://h?sentinelServiceName=m,password=hunter2", "only the name"),
            ("redis-cluster://h?node=a,password=hunter2", "node=host:port"),
            ("cache.example.net:6380,password=hunter2,ssl=True", "start it with redis://"),
            ("host=cache port=6379 password=hunter2", "start it with redis://"),
            ("redis:hunter2", "spell it redis://"),
            ("hunter2", "start it with redis://"),
        ] {
            let error = RedisConfig::from_url(url).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(remedy), "{url}: {shown}");
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
        }
    }
}
