//! The settings of the transport, and their defaults.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer};

use super::{
    address::{self, Address},
    address_map,
    choices::{Batching, NoticeKind, RedisTopology},
    password::Password,
    tls::{SentinelTlsConfig, TlsConfig},
};

/// The settings of a [`RedisTransport`](crate::RedisTransport). The README has them as a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
#[non_exhaustive]
pub struct RedisConfig {
    /// The deployment topology of the servers. Default: `single`.
    #[serde(default)]
    pub topology: RedisTopology,
    /// `single`: the server. `sentinel`: the sentinels. `cluster`: some nodes; the others are discovered. No
    /// default.
    #[serde(deserialize_with = "address::with_or_without_ports")]
    pub addresses: Vec<Address>,
    /// `sentinel` and `cluster`: client addresses of servers that announce other addresses (NAT, Docker, port
    /// forwarding), as a map from announced to reachable address. It applies to all addresses from sentinels and
    /// cluster nodes, including redirects. An announced address with port 0 matches every port of its host. A
    /// reachable address with port 0 keeps the announced port. Default: empty.
    #[serde(default, deserialize_with = "address_map::read")]
    pub address_map: BTreeMap<Address, Address>,
    /// `sentinel`: the name of the master at the sentinels. Required there, no default.
    #[serde(default)]
    pub service_name: Option<String>,
    /// The user to authenticate as. Requires `password`. Default: none, the server's default user.
    #[serde(default)]
    pub username: Option<String>,
    /// The password to authenticate with. Default: none.
    #[serde(default)]
    pub password: Option<Password>,
    /// `sentinel`: the user to authenticate as at the sentinels. Requires `sentinel_password`. Default: none.
    #[serde(default)]
    pub sentinel_username: Option<String>,
    /// `sentinel`: the password for the sentinels. Default: none.
    #[serde(default)]
    pub sentinel_password: Option<Password>,
    /// The database number. Default: 0.
    #[serde(default)]
    pub database: u8,
    /// TLS to servers and sentinels. Default: none, plain connections.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// `sentinel`: TLS to the sentinels, if it differs from that of the servers. Default: as `tls`.
    #[serde(default)]
    pub sentinel_tls: Option<SentinelTlsConfig>,
    /// How the end of a hold is published. Default: `auto`.
    #[serde(default)]
    pub notices: NoticeKind,
    /// How renewals of many locks are batched. Default: `auto`.
    #[serde(default)]
    pub batching: Batching,
    /// The maximum number of requests in flight on one connection. Further requests wait for a permit. Default:
    /// 32,768.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: usize,
    /// The maximum number of leases in one renewal command. The server is blocked for about 5 µs per lease.
    /// Default: 100.
    #[serde(default = "default_batch_leases_max")]
    pub batch_leases_max: usize,
    /// How long the subscription to a lock's channel is kept after its last watch has ended, in ms. Default: 5000.
    #[serde(default = "default_notices_warm_ms")]
    pub notices_warm_ms: u64,
    /// The maximum number of subscriptions without a watch that are kept. The oldest ones are ended first. Default:
    /// 10,000.
    #[serde(default = "default_notices_warm_max")]
    pub notices_warm_max: usize,
    /// How long sent bytes may stay unacknowledged before the kernel closes the connection, in ms
    /// (`TCP_USER_TIMEOUT`). Default: 2000.
    #[serde(default = "default_tcp_user_timeout_ms")]
    pub tcp_user_timeout_ms: u64,
}

// The last step after the derived `Deserialize`: a missing port is that of a sentinel or that of a server.
impl<'de> Deserialize<'de> for RedisConfig {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut config = RedisConfig::deserialize(input)?;
        let unwritten =
            config.addresses.iter_mut().filter(|address| address.port == address::PORT_NOT_WRITTEN);
        unwritten.for_each(|address| address.port = config.topology.default_port());
        Ok(config)
    }
}

impl RedisConfig {
    /// Returns the address at which clients reach the server that is announced as `announced`.
    pub(crate) fn reachable(&self, announced: &Address) -> Address {
        address_map::reachable(&self.address_map, announced)
    }

    /// One server at `host` and `port`, with defaults for everything else.
    pub fn single(host: impl Into<String>, port: u16) -> Self {
        Self::of(RedisTopology::Single, vec![Address::new(host, port)])
    }

    /// The master that these sentinels know as `service_name`, with defaults for everything else.
    pub fn sentinel(sentinels: impl IntoIterator<Item = Address>, service_name: impl Into<String>) -> Self {
        let sentinels = sentinels.into_iter().collect();
        Self { service_name: Some(service_name.into()), ..Self::of(RedisTopology::Sentinel, sentinels) }
    }

    /// The cluster of these nodes, with defaults for everything else.
    pub fn cluster(nodes: impl IntoIterator<Item = Address>) -> Self {
        Self::of(RedisTopology::Cluster, nodes.into_iter().collect())
    }

    pub(super) fn of(topology: RedisTopology, addresses: Vec<Address>) -> Self {
        Self {
            topology,
            addresses,
            address_map: BTreeMap::new(),
            service_name: None,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            database: 0,
            tls: None,
            sentinel_tls: None,
            notices: NoticeKind::default(),
            batching: Batching::default(),
            in_flight_max: default_in_flight_max(),
            batch_leases_max: default_batch_leases_max(),
            notices_warm_ms: default_notices_warm_ms(),
            notices_warm_max: default_notices_warm_max(),
            tcp_user_timeout_ms: default_tcp_user_timeout_ms(),
        }
    }

    /// Returns the TLS settings for sentinels.
    pub(crate) fn tls_to_sentinels(&self) -> Option<TlsConfig> {
        match &self.sentinel_tls {
            Some(own) => own.tls(),
            None => self.tls.clone(),
        }
    }

    pub(crate) fn notices_warm(&self) -> Duration {
        Duration::from_millis(self.notices_warm_ms)
    }
}

fn default_in_flight_max() -> usize {
    32_768
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
    use super::{super::Secret, *};

    fn read(text: &str) -> RedisConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_not_written_has_its_default_and_what_is_unknown_is_refused() {
        let config = read(r#"{ "addresses": ["cache"], "password": { "env": "P" }, "database": 2 }"#);
        assert_eq!((config.addresses[0].to_string().as_str(), config.in_flight_max), ("cache:6379", 32_768));
        for wrong in [
            r#"{ "addresses": ["cache"], "in_flight": 2 }"#,
            r#"{ "addresses": ["cache"], "tls": { "verify": false } }"#,
            r#"{ "addresses": ["cache"], "topology": "ring" }"#,
            r#"{ "addresses": ["cache:0"] }"#,
            r#"{ }"#,
        ] {
            assert!(serde_json::from_str::<RedisConfig>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_that_is_not_written_is_that_of_the_topology() {
        let ports = |text: &str| -> Vec<u16> {
            read(text).addresses.iter().map(|address| address.port).collect::<Vec<_>>()
        };
        assert_eq!(ports(r#"{ "addresses": ["a", "b:7"], "topology": "sentinel" }"#), [26379, 7]);
        assert_eq!(
            ports(r#"{ "topology": "cluster", "addresses": ["a", "[::1]", "b:7"] }"#),
            [6379, 6379, 7]
        );
    }

    #[test]
    fn debug_shows_no_password() {
        let mut config = RedisConfig::single("cache", 6379);
        config.password = Some(Password::Value(Secret::new("hunter2")));
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
