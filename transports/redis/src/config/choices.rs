//! Settings with a few possible values.

use std::fmt;

use serde::Deserialize;

/// The deployment topology of the servers.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RedisTopology {
    /// One server, or a master with replicas but without sentinels. In that case, name the master.
    #[default]
    Single,
    /// A master that sentinels monitor and replace.
    Sentinel,
    /// A Redis Cluster.
    Cluster,
}

/// How the end of a hold is published to waiting clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoticeKind {
    /// As Redisson does: sharded on a cluster that supports it (Redis 7), classic otherwise.
    #[default]
    Auto,
    /// `PUBLISH` and `SUBSCRIBE`.
    Classic,
    /// `SPUBLISH` and `SSUBSCRIBE`. Requires a cluster of Redis 7 or later.
    Sharded,
    /// Both kinds, for fleets in which some clients use one kind and some the other.
    Both,
}

/// How renewals of many locks are batched on a cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Batching {
    /// One call per node if a probe at connect shows that the server supports it (Redis 7), one call per slot
    /// otherwise.
    #[default]
    Auto,
    /// One call per slot, for servers and proxies that check the keys of a script.
    BySlot,
}

impl RedisTopology {
    /// Returns the default port: that of a server, or that of a sentinel.
    pub(super) fn default_port(self) -> u16 {
        match self {
            RedisTopology::Single | RedisTopology::Cluster => 6379,
            RedisTopology::Sentinel => 26379,
        }
    }
}

/// Written as in a configuration file.
impl fmt::Display for RedisTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RedisTopology::Single => "\"single\"",
            RedisTopology::Sentinel => "\"sentinel\"",
            RedisTopology::Cluster => "\"cluster\"",
        })
    }
}
