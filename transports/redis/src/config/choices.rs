//! Settings with a few possible values.

use std::fmt;

use serde::Deserialize;

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

impl RedisTopology {
    /// The port of an address that is written without one: a server's, or a sentinel's.
    pub(super) fn default_port(self) -> u16 {
        match self {
            RedisTopology::Single | RedisTopology::Cluster => 6379,
            RedisTopology::Sentinel => 26379,
        }
    }
}

/// As a file spells it.
impl fmt::Display for RedisTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RedisTopology::Single => "\"single\"",
            RedisTopology::Sentinel => "\"sentinel\"",
            RedisTopology::Cluster => "\"cluster\"",
        })
    }
}
