//! What a server has reported about itself. Pure. Every fact may be missing, because an ACL rule or a proxy may
//! hide it.

use std::time::Duration;

use super::rights::Missing;
use crate::{config::Address, wire::cluster_nodes::Described};

/// The facts of one master.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The address, as text.
    pub(crate) server: String,
    pub(super) info: String,
    /// The replies to `CONFIG GET`, in which names and values alternate.
    pub(super) settings: Vec<String>,
    /// Missing rights, according to the audit's script. `None`: the server cannot report them.
    pub(crate) missing_rights: Option<Vec<String>>,
    /// Missing rights that only fenced locks need.
    pub(crate) missing_fenced_rights: Vec<String>,
    /// The rights missing besides these that only some kinds of locks need.
    pub(crate) missing_rights_of_kinds: Vec<Missing>,
    /// How far the server's clock is ahead of ours, in µs, as a lower bound.
    pub(crate) offset_micros: Option<i64>,
    /// The same for its replicas. `None`: the replica could not be asked.
    pub(crate) replica_offsets: Vec<(String, Option<i64>)>,
    pub(crate) publishes: &'static str,
    /// On how many channels of locks clients listen that do not hear what is published so. `None`: the server does not tell.
    pub(crate) unheard: Option<usize>,
    pub(crate) batches: &'static str,
    /// Whether replies have shown that larger batches do not work.
    pub(crate) is_limited: bool,
}

/// The provider of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    MemoryDb,
    RedisEnterprise,
    Other,
}

/// The facts about failure detection: the sentinels, or the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct DetectionFacts {
    /// How long a server must be silent before a failover begins.
    pub(crate) detection: Option<Duration>,
    /// The number of known sentinels, and how many of them must agree.
    pub(crate) sentinels: Option<(usize, usize)>,
    /// Nodes of the cluster that are marked as failed.
    pub(crate) failed: Vec<String>,
    /// Whether every slot has a node that is connected.
    pub(crate) is_whole: bool,
}

impl Facts {
    pub(crate) fn new(server: String, info: String, settings: Vec<String>) -> Self {
        Self { server, info, settings, ..Self::default() }
    }

    /// Returns a field of `INFO`.
    pub(crate) fn info(&self, field: &str) -> Option<&str> {
        let mut lines = self.info.lines();
        lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
    }

    /// Returns a setting of the server.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let mut pairs = self.settings.chunks_exact(2);
        pairs.find_map(|pair| (pair[0] == name).then_some(pair[1].as_str()))
    }

    /// Returns the provider, if it decides which questions make sense.
    pub(crate) fn host(&self) -> Host {
        match (self.info("os"), self.info("rlec_version")) {
            (Some("Amazon MemoryDB"), _) => Host::MemoryDb,
            (_, Some(_)) => Host::RedisEnterprise,
            _ => Host::Other,
        }
    }

    /// Returns the product and its version. Valkey also reports the Redis version that it is compatible with.
    pub(crate) fn version(&self) -> Option<(&'static str, &str)> {
        let valkey = self.info("valkey_version").map(|version| ("Valkey", version));
        valkey.or_else(|| self.info("redis_version").map(|version| ("Redis", version)))
    }

    /// Returns the addresses of the server's replicas.
    pub(crate) fn replicas(&self) -> Vec<Address> {
        let lines = self.info.lines().filter(|line| line.starts_with("slave") && line.contains("ip="));
        lines.filter_map(replica).collect()
    }
}

// Format: `slave0:ip=10.0.0.2,port=6379,state=online,offset=...`
fn replica(line: &str) -> Option<Address> {
    let (_, fields) = line.split_once(':')?;
    let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Address::new(field("ip")?, field("port")?.trim().parse().ok()?))
}

/// Returns the major version: `7` of `7.0.15`.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Returns the nodes that the cluster has marked as failed, and that were not removed from it.
pub(crate) fn failed(view: &[Described]) -> Vec<String> {
    view.iter().filter(|node| node.is_out).map(|node| node.address.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_the_server_writes_them() {
        let info = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrole:master\r\n\
                    slave0:ip=::1,port=6380,state=online,offset=1,lag=0\r\nslave_read_only:1\r\n";
        let settings = vec!["appendfsync".to_owned(), "always".to_owned()];
        let facts = Facts::new("a:1".into(), info.into(), settings);
        assert_eq!(facts.version(), Some(("Valkey", "9.1.2")));
        assert_eq!((facts.info("role"), facts.info("rol")), (Some("master"), None));
        assert_eq!(facts.setting("appendfsync"), Some("always"));
        assert_eq!(facts.replicas(), [Address::new("::1", 6380)]);
        assert_eq!(major("7.0.15"), Some(7));
    }
}
