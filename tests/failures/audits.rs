//! What the audit says about servers that are set up well, badly, and in each topology.

use std::time::Duration;

use leasehold::{AuditLevel, AuditReport, Engine};
use leasehold_redis::{Address, NoticeKind, RedisConfig, RedisTransport};
use leasehold_tests::{
    changed,
    harness::{
        cluster::RedisCluster,
        redis_server::RedisServer,
        sentinel::{RedisSentinel, SERVICE},
    },
};

async fn audited(config: RedisConfig) -> AuditReport {
    let builder = Engine::builder(RedisTransport::new(config)).ttl(Duration::from_secs(10));
    let engine = builder.build().await.expect("an engine");
    let report = engine.audit().await;
    println!("{report}");
    report
}

/// Level and text of the first finding about it.
fn about(report: &AuditReport, subject: &str) -> (AuditLevel, String) {
    let finding = report.findings().iter().find(|finding| finding.subject == subject);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {subject}: {report}"));
    assert!(!finding.remedy.is_empty(), "{finding}");
    (finding.level, finding.found.clone())
}

fn single(server: &RedisServer) -> RedisConfig {
    RedisConfig::single("127.0.0.1", server.port())
}

#[tokio::test]
async fn a_server_that_keeps_its_locks_has_no_warnings() {
    let server = RedisServer::builder().option("--appendonly", "yes").option("--appendfsync", "always");
    let server = server.start().expect("a server");
    let report = audited(single(&server)).await;
    assert_eq!(report.worst(), Some(AuditLevel::Info), "{report}");
    assert!(about(&report, "version").1.starts_with("Redis 7."), "{report}");
    assert_eq!(about(&report, "rights").1, "all that are needed");
}

#[tokio::test]
async fn a_server_that_forgets_or_evicts_locks_is_told_of() {
    let server = RedisServer::builder().option("--maxmemory", "100mb");
    let server = server.option("--maxmemory-policy", "volatile-ttl").start().expect("a server");
    let report = audited(single(&server)).await;
    assert_eq!(report.worst(), Some(AuditLevel::Error), "{report}");
    assert_eq!(about(&report, "eviction"), (AuditLevel::Error, "volatile-ttl".to_owned()));
    assert_eq!(about(&report, "persistence").0, AuditLevel::Warn);
}

#[tokio::test]
async fn each_missing_right_is_named() {
    let server = RedisServer::start().expect("a server");
    let mut raw = server.client().expect("a connection");
    for right in ["pexpire", "pexpireat", "hdel", "publish", "del"] {
        let user = ["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "&*", "+@all"];
        assert!(raw.command(&[&user[..], &[&format!("-{right}")]].concat()).expect("a reply").is_ok());
        let config = RedisConfig::from_url(&format!("redis://app:hunter2@127.0.0.1:{}", server.port()));
        let report = audited(config.expect("a url")).await;
        let (level, found) = about(&report, "rights");
        assert_eq!(level, AuditLevel::Error);
        assert!(found.contains(&format!("+{right} ")) && !found.contains(','), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_replicas_are_looked_at() {
    let deployment =
        tokio::task::spawn_blocking(RedisSentinel::start).await.expect("no panic").expect("servers");
    let sentinels = deployment.sentinel_addresses();
    let sentinels = sentinels.iter().map(|address| address.parse().expect("an address"));
    let config = RedisConfig::sentinel(sentinels, SERVICE);
    let report = audited(config.clone()).await;
    assert_eq!(about(&report, "sentinels"), (AuditLevel::Info, "3 known, 2 must agree".to_owned()));
    // 1 s of silence against a ttl of 10 s.
    assert_eq!(about(&report, "detection").0, AuditLevel::Warn);
    let clocks = report.findings().iter().filter(|finding| finding.subject == "clock").count();
    assert_eq!(clocks, 2, "of each replica: {report}");
    assert_ne!(report.worst(), Some(AuditLevel::Error), "{report}");
    let third = &deployment.sentinels()[2];
    third.kill().expect("killed");
    let report = audited(config).await;
    let told = report.findings().iter().find(|finding| finding.server.ends_with(&third.port().to_string()));
    assert!(
        told.is_some_and(|told| told.level == AuditLevel::Warn && told.subject == "sentinels"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_is_looked_at() {
    let cluster =
        tokio::task::spawn_blocking(RedisCluster::start).await.expect("no panic").expect("a cluster");
    let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
    let report = audited(RedisConfig::cluster(nodes)).await;
    let roles = report.findings().iter().filter(|finding| finding.subject == "role").count();
    assert_eq!(roles, 3, "{report}");
    assert_eq!(about(&report, "cluster"), (AuditLevel::Info, "every slot has a master".to_owned()));
    assert_eq!(about(&report, "notices").1, "published by spublish");
    assert!(about(&report, "batching").1.contains("across slots"), "{report}");
    assert_eq!(about(&report, "detection").0, AuditLevel::Warn);
    assert_eq!(about(&report, "rights").1, "all that are needed");
    assert_ne!(report.worst(), Some(AuditLevel::Error), "{report}");
}

/// As a client of Redisson with the other `shardedSubscriptionMode` listens while it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hears_no_notices_is_told_of() {
    let cluster =
        tokio::task::spawn_blocking(RedisCluster::start).await.expect("no panic").expect("a cluster");
    let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
    let config = RedisConfig::cluster(nodes);
    let channel = "redisson_lock__channel:{L}";
    let node = cluster.master_of(leasehold::routing::slot::Slot::of(b"L").number()).expect("a master");
    let listens_for = |command| {
        let mut listener = node.client().expect("a connection");
        listener.command(&[command, channel]).expect("a reply");
        listener
    };
    for (command, unheard, heard) in [
        ("SUBSCRIBE", NoticeKind::Sharded, NoticeKind::Classic),
        ("SSUBSCRIBE", NoticeKind::Classic, NoticeKind::Sharded),
    ] {
        let _listener = listens_for(command);
        for (notices, is_heard) in [(unheard, false), (heard, true), (NoticeKind::Both, true)] {
            let report = audited(changed(config.clone(), |new| new.notices = notices)).await;
            let findings = report.findings().iter().filter(|finding| finding.subject == "notices");
            let warned = findings.filter(|finding| finding.level == AuditLevel::Warn).count();
            assert_eq!(warned, usize::from(!is_heard), "{command}, {notices:?}: {report}");
        }
    }
}
