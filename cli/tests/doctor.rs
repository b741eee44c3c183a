//! `leasehold doctor`.

use leasehold_tests::harness::redis_server::RedisServer;

use crate::program::{cluster, leasehold, server};

#[test]
fn warnings_fail_only_if_asked_for() {
    for url in [server(), cluster()] {
        let ended = leasehold(url, &["doctor"]).expect_code(0);
        assert!(
            ended.stdout.contains("warn persistence") && ended.stdout.contains("0 errors"),
            "{}",
            ended.stdout
        );
        let report = leasehold(url, &["doctor", "--fail-on", "warn", "--json"]).expect_code(1).document();
        assert_eq!(report["worst"], "warn");
        let findings = report["findings"].as_array().expect("a list");
        assert!(findings.iter().any(|finding| finding["subject"] == "role" && finding["level"] == "info"));
    }
}

#[test]
fn an_error_fails() {
    let builder =
        RedisServer::builder().option("--maxmemory", "100mb").option("--maxmemory-policy", "volatile-ttl");
    let server = builder.start().expect("a server");
    let ended = leasehold(&server.url(), &["doctor"]).expect_code(1);
    assert!(ended.stdout.starts_with("error eviction"), "{}", ended.stdout);
}
