//! The servers that tests run on: Debian's Redis, and those that `tests/harness/servers.sh` fetches.

use std::path::{Path, PathBuf};

/// A server program. The fetched ones stand in the checkout's `target/servers` and are built without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerVersion {
    /// `apt-get install redis-server`: Redis 7.0 in bookworm, built with TLS.
    Debian,
    /// Redis 6.2.14: no sharded channels, no `PEXPIRETIME`.
    Redis62,
    /// Redis 8.2.3.
    Redis82,
    /// Valkey 8.1.8.
    Valkey81,
    /// Valkey 9.1.2: moves slots atomically.
    Valkey91,
}

impl ServerVersion {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Debian, Self::Redis62, Self::Redis82, Self::Valkey81, Self::Valkey91];

    /// As `servers.sh` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Redis62 => "redis-6.2",
            Self::Redis82 => "redis-8.2",
            Self::Valkey81 => "valkey-8.1",
            Self::Valkey91 => "valkey-9.1",
        }
    }

    /// The program; it need not be there.
    pub fn program(self) -> PathBuf {
        let program = match self {
            Self::Debian => return "redis-server".into(),
            Self::Redis62 | Self::Redis82 => "redis-server",
            Self::Valkey81 | Self::Valkey91 => "valkey-server",
        };
        Path::new(SERVERS).join(self.name()).join(program)
    }

    /// What to do when it is missing.
    pub(crate) fn remedy(self) -> String {
        match self {
            Self::Debian => "apt-get install redis-server".to_owned(),
            _ => format!("tests/harness/servers.sh {}", self.name()),
        }
    }

    /// Whether it knows `SSUBSCRIBE` and `SPUBLISH`, as all but 6.2 do.
    pub fn has_sharded_channels(self) -> bool {
        self != Self::Redis62
    }

    /// Whether it knows `CLUSTER MIGRATESLOTS`.
    pub fn migrates_atomically(self) -> bool {
        self == Self::Valkey91
    }
}

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/servers");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cluster::{Failover, RedisCluster};
    use crate::harness::redis_server::RedisServer;
    use crate::harness::sentinel::RedisSentinel;

    /// What `INFO` says: Valkey calls itself Redis 7.2.4 first.
    fn told(server: &RedisServer) -> String {
        let mut client = server.client().expect("a connection");
        let info = client.command(&["INFO", "server"]).expect("a reply").text().unwrap_or_default();
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        field("valkey_version:")
            .map(|version| format!("valkey {version}"))
            .unwrap_or_else(|| format!("redis {}", field("redis_version:").unwrap_or_default()))
    }

    #[test]
    fn every_version_answers_and_is_the_one_it_is_called() {
        let expected =
            [None, Some("redis 6.2.14"), Some("redis 8.2.3"), Some("valkey 8.1.8"), Some("valkey 9.1.2")];
        for (version, expected) in ServerVersion::ALL.into_iter().zip(expected) {
            let server = RedisServer::builder().version(version).start().expect("a server");
            let told = told(&server);
            assert!(expected.is_none_or(|expected| told == expected), "{version:?} is {told}");
            let mut client = server.client().expect("a connection");
            let sharded = client.command(&["SPUBLISH", "c", "0"]).expect("a reply").error().is_none();
            assert_eq!(sharded, version.has_sharded_channels(), "{version:?}");
        }
    }

    /// Plain, so the replica has to have followed its master through the proxies.
    fn fails_over(cluster: &RedisCluster) {
        let (master, replica) =
            (cluster.master_of(1).expect("a master"), cluster.replica_of(1).expect("one"));
        cluster.failover(&replica, Failover::Plain).expect("asked");
        cluster.wait_for_promotion(1, master.port()).expect("promoted");
        cluster.wait_until_whole().expect("whole");
    }

    #[test]
    fn the_oldest_forms_a_cluster_and_sentinels() {
        let cluster =
            RedisCluster::builder().version(ServerVersion::Redis62).proxied().start().expect("a cluster");
        fails_over(&cluster);
        let sentinel =
            RedisSentinel::builder().version(ServerVersion::Redis62).proxied().start().expect("sentinels");
        assert_eq!(sentinel.replicas().expect("replicas").len(), 2);
    }

    #[test]
    fn the_newest_redis_forms_a_cluster() {
        let cluster =
            RedisCluster::builder().version(ServerVersion::Redis82).proxied().start().expect("a cluster");
        let (source, target) =
            (cluster.master_of(0).expect("a master"), cluster.master_of(16_383).expect("one"));
        cluster.migrate_slot(0, &target).expect("migrated");
        assert_ne!(cluster.master_of(0).expect("a master").port(), source.port());
        fails_over(&cluster);
    }

    #[test]
    fn the_newest_valkey_moves_slots_at_once_with_their_keys() {
        let cluster =
            RedisCluster::builder().version(ServerVersion::Valkey91).proxied().start().expect("a cluster");
        let (source, target) = (cluster.master_of(12_182).expect("one"), cluster.master_of(0).expect("one"));
        source.command(&["SET", "foo", "1"]).expect("a reply");
        cluster.migrate_slots_atomically(12_180..=12_200, &target).expect("migrated");
        assert_eq!(target.command(&["GET", "foo"]).expect("a reply").text().as_deref(), Some("1"));
        cluster.migrate_slots_atomically(12_180..=12_190, &source).expect("migrated");
        assert_eq!(source.command(&["GET", "foo"]).expect("a reply").text().as_deref(), Some("1"));
        cluster.migrate_slots_atomically(12_180..=12_190, &target).expect("migrated");
        assert_eq!(target.command(&["GET", "foo"]).expect("a reply").text().as_deref(), Some("1"));
        fails_over(&cluster);
        // The way of Redis works there, too.
        cluster.migrate_slot(12_182, &source).expect("migrated");
        assert_eq!(source.command(&["GET", "foo"]).expect("a reply").text().as_deref(), Some("1"));
    }

    #[test]
    fn a_missing_one_is_an_error_that_says_how_to_fetch_it() {
        let builder = RedisServer::builder().version(ServerVersion::Valkey91);
        let error = builder.program("/nowhere/valkey-server").start().expect_err("it is not there");
        assert!(error.to_string().ends_with("tests/harness/servers.sh valkey-9.1"), "{error}");
    }
}
