//! Checks for settings that cannot work, alone or together. Pure.

use std::collections::BTreeMap;

use super::{
    RedisConfig, RedisTopology,
    address::SPELLING,
    choices::NoticeKind,
    credentials::{is_connection_text, shown, shown_of_other},
    error::{ConfigError, NOT_SET},
    tls::{SentinelTlsConfig, TlsConfig},
};

#[cfg(feature = "tls")]
use super::tls_files::is_server_name;

type Checked = Result<(), ConfigError>;

impl RedisConfig {
    /// Checks the settings that can be checked without a server. [`open`](leasehold::transport::Transport::open)
    /// does so too.
    ///
    /// # Errors
    /// The first setting that cannot work, alone or together with another one. The error has the values of both.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_addresses()?;
        self.check_sentinel()?;
        self.check_credentials()?;
        self.check_topology()?;
        self.check_features(cfg!(feature = "tls"))?;
        self.tls.as_ref().map_or(Ok(()), |tls| tls.check(TLS))?;
        self.sentinel_tls.as_ref().map_or(Ok(()), SentinelTlsConfig::check)?;
        self.check_address_map()?;
        self.check_limits()
    }

    fn check_addresses(&self) -> Checked {
        let mut seen = BTreeMap::new();
        for (entry, address) in self.addresses.iter().enumerate() {
            let wrong = |remedy| ConfigError::new("addresses", format!("\"{address}\""), remedy).entry(entry);
            refuse_if(!address.has_a_host() || address.port == 0, || wrong(SPELLING))?;
            let twice = seen.insert(address, entry).is_some();
            refuse_if(twice, || wrong("it is there twice; name each server once"))?;
        }
        let wrong = |remedy| ConfigError::new("addresses", self.listed_addresses(), remedy);
        refuse_if(self.addresses.is_empty(), || wrong("give at least one address"))?;
        refuse_if(self.topology == RedisTopology::Single && self.addresses.len() > 1, || {
            wrong("name one server, the master; or set `topology` to \"sentinel\" or \"cluster\"")
                .against("topology", self.topology)
        })
    }

    fn check_sentinel(&self) -> Checked {
        let is_sentinel = self.topology == RedisTopology::Sentinel;
        let needs_a_name =
            "give the name under which the sentinels know the master, as `sentinel monitor` has it";
        let name = self.service_name.as_deref();
        refuse_if(is_sentinel && name.is_none(), || {
            ConfigError::new("topology", self.topology, needs_a_name).against("service_name", NOT_SET)
        })?;
        refuse_if(name.is_some_and(|name| name.trim().is_empty()), || {
            ConfigError::new("service_name", quoted(name), needs_a_name)
        })?;
        refuse_if(name.is_some_and(is_connection_text), || {
            ConfigError::new("service_name", quoted(name), ONLY_THE_NAME)
        })?;
        let password = self.sentinel_password.as_ref().map(|_| "set".to_owned());
        for (field, value) in [
            ("service_name", name.map(|name| quoted(Some(name)))),
            ("sentinel_username", self.sentinel_username.as_deref().map(|name| quoted(Some(name)))),
            ("sentinel_password", password),
            ("sentinel_tls", self.sentinel_tls.as_ref().map(|_| "set".to_owned())),
        ] {
            let remedy = "it belongs to \"sentinel\"; leave it out, or set `topology` to \"sentinel\"";
            refuse_if(!is_sentinel && value.is_some(), || {
                ConfigError::new(field, value.unwrap_or_default(), remedy).against("topology", self.topology)
            })?;
        }
        Ok(())
    }

    fn check_credentials(&self) -> Checked {
        for (name_field, name, password_field, password) in [
            ("username", &self.username, "password", &self.password),
            ("sentinel_username", &self.sentinel_username, "sentinel_password", &self.sentinel_password),
        ] {
            refuse_if(name.is_some() && password.is_none(), || {
                let remedy = "give the password too, or leave the name out";
                ConfigError::new(name_field, quoted(name.as_deref()), remedy).against(password_field, NOT_SET)
            })?;
            refuse_if(name.as_ref().is_some_and(String::is_empty), || {
                ConfigError::new(name_field, "\"\"", "leave it out to authenticate as the default user")
            })?;
        }
        Ok(())
    }

    fn check_topology(&self) -> Checked {
        let is_cluster = self.topology == RedisTopology::Cluster;
        refuse_if(is_cluster && self.database != 0, || {
            ConfigError::new("database", self.database, "a cluster has only database 0; leave it out")
                .against("topology", self.topology)
        })?;
        refuse_if(!is_cluster && self.notices == NoticeKind::Sharded, || {
            ConfigError::new("notices", "\"sharded\"", "only a cluster has them; use \"auto\" or \"classic\"")
                .against("topology", self.topology)
        })
    }

    /// Connections by TLS need the feature `tls`; plain ones to the sentinels do not.
    fn check_features(&self, has_tls: bool) -> Checked {
        let to_sentinels = self.sentinel_tls.as_ref().and_then(SentinelTlsConfig::tls);
        for (field, tls) in [("tls", &self.tls), ("sentinel_tls", &to_sentinels)] {
            refuse_if(tls.is_some() && !has_tls, || ConfigError::new(field, "set", WITHOUT_TLS))?;
        }
        Ok(())
    }

    fn check_limits(&self) -> Checked {
        // The limit of a tokio semaphore is above one million. A batch of 1000 leases blocks the server for 1 ms.
        for (field, value, least, most, remedy) in [
            (
                "in_flight_max",
                self.in_flight_max as u64,
                1,
                1_000_000,
                "give 1 to 1000000; the default is 4096",
            ),
            (
                "batch_leases_max",
                self.batch_leases_max as u64,
                1,
                1_000,
                "give 1 to 1000; the default is 100",
            ),
            ("notices_warm_ms", self.notices_warm_ms, 0, HOUR_MS, "give 0 to 3600000; the default is 5000"),
            (
                "notices_warm_max",
                self.notices_warm_max as u64,
                0,
                1_000_000,
                "give 0 to 1000000; the default is 10000",
            ),
            (
                "tcp_user_timeout_ms",
                self.tcp_user_timeout_ms,
                1,
                HOUR_MS,
                "give 1 to 3600000; the default is 2000",
            ),
        ] {
            let within = (least..=most).contains(&value);
            refuse_if(!within, || ConfigError::new(field, value, remedy))?;
        }
        Ok(())
    }

    fn check_address_map(&self) -> Checked {
        for (announced, reachable) in &self.address_map {
            refuse_if(!announced.has_a_host() || !reachable.has_a_host(), || {
                let entry = format!("\"{announced}\" = \"{reachable}\"");
                ConfigError::new("address_map", entry, "write each address as host:port, or as host")
            })?;
        }
        let is_single = self.topology == RedisTopology::Single;
        refuse_if(is_single && !self.address_map.is_empty(), || {
            let entries = format!("{} entries", self.address_map.len());
            let remedy = "one server announces nothing; give its reachable address to `addresses`";
            ConfigError::new("address_map", entries, remedy).against("topology", self.topology)
        })
    }

    fn listed_addresses(&self) -> String {
        let listed: Vec<_> = self.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        format!("[{}]", listed.join(", "))
    }
}

impl TlsConfig {
    fn check(&self, [ca, cert, key, server_name]: [&'static str; 4]) -> Checked {
        let files = [(ca, &self.ca), (cert, &self.cert), (key, &self.key)];
        for (field, file) in files {
            refuse_if(file.as_ref().is_some_and(|file| file.as_os_str().is_empty()), || {
                ConfigError::new(field, "\"\"", "name a PEM file, or leave it out")
            })?;
        }
        for ((field, file), (other, other_file)) in [(files[1], files[2]), (files[2], files[1])] {
            refuse_if(file.is_some() && other_file.is_none(), || {
                let value = file.as_ref().map(|file| format!("{file:?}")).unwrap_or_default();
                let remedy = "a client certificate and its key belong together; give both or none";
                ConfigError::new(field, value, remedy).against(other, NOT_SET)
            })?;
        }
        let name = self.server_name.as_deref();
        refuse_if(name.is_some_and(|name| !is_server_name(name)), || {
            let shown = name.map(shown).unwrap_or_default();
            let remedy = "give a host name or an IP address, without a port";
            ConfigError::new(server_name, format!("{shown:?}"), remedy)
        })
    }
}

impl SentinelTlsConfig {
    fn check(&self) -> Checked {
        let files = self.files();
        let first_set = [&files.ca, &files.cert, &files.key]
            .into_iter()
            .map(|file| file.as_ref().map(|file| format!("{file:?}")))
            .chain([files.server_name.as_deref().map(|name| quoted(Some(name)))])
            .zip(SENTINEL_TLS)
            .find_map(|(value, field)| Some((field, value?)));
        let other = first_set.filter(|_| self.plain);
        refuse_if(other.is_some(), || {
            let (field, value) = other.unwrap_or_default();
            let remedy = "plain connections have no certificates; leave one of the two out";
            ConfigError::new("sentinel_tls.plain", true, remedy).against(field, value)
        })?;
        files.check(SENTINEL_TLS)
    }
}

/// The fields of the two sections.
const TLS: [&str; 4] = ["tls.ca", "tls.cert", "tls.key", "tls.server_name"];
const SENTINEL_TLS: [&str; 4] =
    ["sentinel_tls.ca", "sentinel_tls.cert", "sentinel_tls.key", "sentinel_tls.server_name"];

pub(crate) const WITHOUT_TLS: &str = "this program was built without TLS; build it with the default feature `tls` of leasehold-redis, or leave the \
     setting out (in a URL: redis in place of rediss)";

// A configuration with TLS has been refused before its names are looked at.
#[cfg(not(feature = "tls"))]
fn is_server_name(_: &str) -> bool {
    true
}

fn refuse_if(wrong: bool, error: impl FnOnce() -> ConfigError) -> Checked {
    if wrong { Err(error()) } else { Ok(()) }
}

fn quoted(text: Option<&str>) -> String {
    format!("{:?}", shown_of_other(text.unwrap_or_default()))
}

const ONLY_THE_NAME: &str = "write only the name of the master, as `sentinel monitor` has it; options and passwords have settings of their own";

const HOUR_MS: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::{
        super::{Address, Password, Secret},
        *,
    };

    fn single() -> RedisConfig {
        RedisConfig::single("cache", 6379)
    }

    fn sentinel() -> RedisConfig {
        RedisConfig::sentinel([Address::new("s1", 26379), Address::new("s2", 26379)], "mymaster")
    }

    fn cluster() -> RedisConfig {
        RedisConfig::cluster([Address::new("n1", 7000), Address::new("n2", 7000)])
    }

    fn tls(tls: TlsConfig) -> RedisConfig {
        RedisConfig { tls: Some(tls), ..single() }
    }

    fn said(config: &RedisConfig) -> String {
        config.check().expect_err("refused").to_string()
    }

    #[test]
    fn what_belongs_together_is_accepted() {
        let plain = RedisConfig { sentinel_tls: Some(SentinelTlsConfig::plain()), ..sentinel() };
        for good in [single(), sentinel(), cluster(), tls(TlsConfig::default()), plain] {
            assert_eq!(good.check(), Ok(()));
        }
    }

    #[test]
    fn a_build_without_tls_refuses_tls_and_names_the_feature() {
        let own = |own| RedisConfig { sentinel_tls: Some(own), ..sentinel() };
        for (config, field) in
            [(tls(TlsConfig::default()), "`tls`"), (own(SentinelTlsConfig::default()), "`sentinel_tls`")]
        {
            let said = config.check_features(false).expect_err("refused").to_string();
            assert!(said.starts_with(field) && said.contains("feature `tls`"), "{said}");
            assert_eq!(config.check_features(true), Ok(()));
        }
        for plain in [single(), own(SentinelTlsConfig::plain())] {
            assert_eq!(plain.check_features(false), Ok(()));
        }
    }

    #[test]
    fn every_bad_value_is_named_with_its_remedy() {
        let long_timeout = RedisConfig { tcp_user_timeout_ms: 3_600_001, ..single() };
        for (config, expected) in [
            (RedisConfig::single(" ", 6379), "`addresses` is "),
            (
                RedisConfig::single("redis://:hunter2@cache", 6379),
                "`addresses` is \"redis://***@cache:6379\": ",
            ),
            (RedisConfig::single("cache", 0), "`addresses` is "),
            (RedisConfig::single("cache,password=hunter2", 1), "`addresses` is \"***:1\": write host:port"),
            (RedisConfig::single("cache&hunter2", 1), "`addresses` is \"***:1\": write host:port"),
            (
                RedisConfig { service_name: Some("m,password=hunter2".into()), ..sentinel() },
                "`service_name` is \"***\": write only the name",
            ),
            (
                RedisConfig { service_name: Some("m password=hunter2".into()), ..single() },
                "`service_name` is \"***\": write only the name",
            ),
            (RedisConfig::cluster([]), "`addresses` is []"),
            (
                RedisConfig::cluster([Address::new("a", 1), Address::new("a", 1)]),
                "`addresses` is \"a:1\": it is",
            ),
            (RedisConfig { service_name: Some(" ".into()), ..sentinel() }, "`service_name` is \" \": give"),
            (RedisConfig { in_flight_max: 0, ..single() }, "`in_flight_max` is 0: give 1 to"),
            (RedisConfig { in_flight_max: 1_000_001, ..single() }, "`in_flight_max` is 1000001: give"),
            (RedisConfig { batch_leases_max: 5_000, ..single() }, "`batch_leases_max` is 5000: give"),
            (RedisConfig { notices_warm_ms: u64::MAX, ..single() }, "`notices_warm_ms` is 18446"),
            (RedisConfig { notices_warm_max: 1_000_001, ..single() }, "`notices_warm_max` is 1000001: give"),
            (RedisConfig { tcp_user_timeout_ms: 0, ..single() }, "`tcp_user_timeout_ms` is 0: give"),
            (long_timeout, "`tcp_user_timeout_ms` is 3600001: give"),
            (tls(TlsConfig { ca: Some("".into()), ..TlsConfig::default() }), "`tls.ca` is \"\": name"),
            (
                tls(TlsConfig { server_name: Some("a:1".into()), ..TlsConfig::default() }),
                "`tls.server_name` is \"a:1\": give",
            ),
            (
                tls(TlsConfig { server_name: Some("a,password=hunter2".into()), ..TlsConfig::default() }),
                "`tls.server_name` is \"***\": give",
            ),
        ] {
            assert!(said(&config).starts_with(expected), "{expected} in {}", said(&config));
            assert!(!said(&config).contains("hunter2"));
        }
    }

    #[test]
    fn settings_for_sentinels_and_announced_addresses_are_checked() {
        let sentinel_tls = |sentinel_tls| RedisConfig { sentinel_tls: Some(sentinel_tls), ..sentinel() };
        let plain = SentinelTlsConfig::plain();
        let address_map = [(Address::new("10.0.0.1", 6379), Address::new("nat", 7))].into();
        let nowhere = [(Address::new("10.0.0.1", 6379), Address::new("", 7))].into();
        for (config, expected) in [
            (
                sentinel_tls(SentinelTlsConfig { ca: Some("c.pem".into()), ..plain.clone() }),
                r#"`sentinel_tls.plain` is true, but `sentinel_tls.ca` is "c.pem": "#,
            ),
            (
                sentinel_tls(SentinelTlsConfig { key: Some("k.pem".into()), ..SentinelTlsConfig::default() }),
                r#"`sentinel_tls.key` is "k.pem", but `sentinel_tls.cert` is not set: "#,
            ),
            (
                RedisConfig { sentinel_tls: Some(plain), ..cluster() },
                r#"`sentinel_tls` is set, but `topology` is "cluster": "#,
            ),
            (
                RedisConfig { address_map, ..single() },
                r#"`address_map` is 1 entries, but `topology` is "single": "#,
            ),
            (
                RedisConfig { address_map: nowhere, ..cluster() },
                r#"`address_map` is "10.0.0.1:6379" = ":7": write"#,
            ),
        ] {
            assert!(said(&config).starts_with(expected), "{expected} in {}", said(&config));
        }
    }

    #[test]
    fn contradictions_are_refused_with_both_values() {
        let two = RedisConfig { topology: RedisTopology::Single, ..cluster() };
        let secret = Some(Password::Value(Secret::new("hunter2")));
        for (config, expected) in [
            (two, r#"`addresses` is ["n1:7000", "n2:7000"], but `topology` is "single": "#),
            (
                RedisConfig { service_name: None, ..sentinel() },
                r#"`topology` is "sentinel", but `service_name` is not set: "#,
            ),
            (
                RedisConfig { service_name: Some("m".into()), ..single() },
                r#"`service_name` is "m", but `topology` is "single": "#,
            ),
            (
                RedisConfig { sentinel_username: Some("u".into()), ..cluster() },
                r#"`sentinel_username` is "u", but `topology` is "cluster": "#,
            ),
            (
                RedisConfig { sentinel_password: secret.clone(), ..cluster() },
                r#"`sentinel_password` is set, but `topology` is "cluster": "#,
            ),
            (
                RedisConfig { username: Some("u".into()), ..single() },
                r#"`username` is "u", but `password` is not set: "#,
            ),
            (
                RedisConfig { sentinel_username: Some("u".into()), ..sentinel() },
                r#"`sentinel_username` is "u", but `sentinel_password` is not set: "#,
            ),
            (RedisConfig { database: 3, ..cluster() }, r#"`database` is 3, but `topology` is "cluster": "#),
            (
                RedisConfig { notices: NoticeKind::Sharded, ..sentinel() },
                r#"`notices` is "sharded", but `topology` is "sentinel": "#,
            ),
            (
                tls(TlsConfig { cert: Some("c.pem".into()), ..TlsConfig::default() }),
                r#"`tls.cert` is "c.pem", but `tls.key` is not set: "#,
            ),
            (
                tls(TlsConfig { key: Some("k.pem".into()), ..TlsConfig::default() }),
                r#"`tls.key` is "k.pem", but `tls.cert` is not set: "#,
            ),
        ] {
            assert!(said(&config).starts_with(expected), "{expected} in {}", said(&config));
        }
        let empty = RedisConfig { username: Some(String::new()), password: secret, ..single() };
        assert!(said(&empty).contains("leave it out"));
    }
}
