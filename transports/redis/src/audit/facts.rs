//! What a server has told about itself. Pure. Everything may be missing: an ACL rule or a proxy may withhold it.

use std::time::Duration;

use crate::{config::Address, wire::cluster_nodes::Described};

/// What was read from one master.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The address, as text.
    pub(crate) server: String,
    pub(super) info: String,
    /// `CONFIG GET`, name and value by turns.
    pub(super) settings: Vec<String>,
    /// Rights that the audit's script found missing; `None`: the server cannot tell.
    pub(crate) missing_rights: Option<Vec<String>>,
    /// How far the server's clock is ahead of ours, rather too little.
    pub(crate) offset_micros: Option<i64>,
    /// The same of its replicas, where they could be asked.
    pub(crate) replica_offsets: Vec<(String, Option<i64>)>,
    pub(crate) publishes: &'static str,
    pub(crate) batches: &'static str,
    /// Whether answers have shown that larger batches do not work.
    pub(crate) is_limited: bool,
}

/// Who runs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    MemoryDb,
    RedisEnterprise,
    Other,
}

/// What was read about who watches the servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers {
    /// After which silence a failover begins.
    pub(crate) detection: Option<Duration>,
    /// Sentinels that are known, and how many must agree.
    pub(crate) sentinels: Option<(usize, usize)>,
    /// Nodes of the cluster that are marked as failed, and slots that nobody serves.
    pub(crate) failed: Vec<String>,
    pub(crate) is_whole: bool,
}

impl Facts {
    pub(crate) fn new(server: String, info: String, settings: Vec<String>) -> Self {
        Self { server, info, settings, ..Self::default() }
    }

    /// A field of `INFO`.
    pub(crate) fn info(&self, field: &str) -> Option<&str> {
        let mut lines = self.info.lines();
        lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
    }

    /// A setting of the server.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let mut pairs = self.settings.chunks_exact(2);
        pairs.find_map(|pair| (pair[0] == name).then_some(pair[1].as_str()))
    }

    /// Who runs it, where that decides what may be asked of it.
    pub(crate) fn host(&self) -> Host {
        match (self.info("os"), self.info("rlec_version")) {
            (Some("Amazon MemoryDB"), _) => Host::MemoryDb,
            (_, Some(_)) => Host::RedisEnterprise,
            _ => Host::Other,
        }
    }

    /// Its product and version. Valkey tells a version of Redis, too, which it is compatible with.
    pub(crate) fn version(&self) -> Option<(&'static str, &str)> {
        let valkey = self.info("valkey_version").map(|version| ("Valkey", version));
        valkey.or_else(|| self.info("redis_version").map(|version| ("Redis", version)))
    }

    /// Where its replicas listen.
    pub(crate) fn replicas(&self) -> Vec<Address> {
        let lines = self.info.lines().filter(|line| line.starts_with("slave") && line.contains("ip="));
        lines.filter_map(replica).collect()
    }
}

// slave0:ip=10.0.0.2,port=6379,state=online,offset=...
fn replica(line: &str) -> Option<Address> {
    let (_, fields) = line.split_once(':')?;
    let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Address::new(field("ip")?, field("port")?.trim().parse().ok()?))
}

/// The major version: `7` of `7.0.15`.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Those that the cluster has given up, but that were not removed from it.
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
