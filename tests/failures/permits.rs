//! Permits that expire on servers that refuse and that are out of memory.

use leasehold::{AcquireError, Engine, LossReason};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::harness::redis_server::RedisServer;

use crate::fixture::{Fixture, SECOND};

/// The rule of the README: what locks, semaphores and permits need.
fn documented_rule() -> Vec<String> {
    let readme = include_str!("../../transports/redis/README.md");
    let first = readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER leasehold ")).expect("a rule");
    let counters = readme.lines().find(|line| line.starts_with("~{locks:* ")).expect("what counters need");
    let permits = readme.lines().find(|line| line.contains("+zcount")).expect("what permits need");
    let permits = permits.strip_prefix("ACL SETUSER leasehold ").expect("a rule");
    let rule = [first, counters, permits].join(" ").replace(">secret", ">hunter2-word");
    rule.split_whitespace().map(str::to_owned).collect()
}

/// An engine of a user with this rule.
async fn engine_of(server: &RedisServer, rule: &[String]) -> Engine {
    let words = ["ACL", "SETUSER", "leasehold", "reset"].into_iter();
    let words: Vec<_> = words.chain(rule.iter().map(String::as_str)).collect();
    assert!(server.client().expect("a connection").command(&words).expect("a reply").is_ok());
    let mut config = RedisConfig::single("127.0.0.1", server.port());
    config.username = Some("leasehold".to_owned());
    config.password = Some(Password::Value(Secret::new("hunter2-word")));
    Engine::builder(RedisTransport::new(config))
        .name_prefix("locks:")
        .ttl(3 * SECOND)
        .build()
        .await
        .expect("an engine")
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_permits() {
    let server = RedisServer::start().expect("a server");
    let engine = engine_of(&server, &documented_rule()).await;
    let report = engine.audit().await;
    assert!(!report.to_string().contains("permits that expire cannot be used"), "{report}");
    let permits = engine.permits("p");
    assert!(permits.try_set_total(3).await.expect("granted"));
    let dead = permits.clone().ttl(SECOND).no_renewal().acquire(1).await.expect("granted");
    let held = permits.acquire(2).await.expect("granted");
    let waiting = tokio::spawn(permits.acquire(1));
    assert_eq!(dead.lost().await, LossReason::Expired);
    waiting.await.expect("no panic").expect("reclaimed").release().await.expect("granted");
    held.renew(5 * SECOND).await.expect("granted");
    held.release().await.expect("granted");
    permits.add(-1).await.expect("granted");
    assert_eq!(permits.available().await.expect("granted"), 2);
}

/// The audit names each right at start, and a call that lacks one takes nothing.
#[tokio::test]
async fn each_right_of_permits_that_is_missing_is_named_and_nothing_is_taken() {
    let server = RedisServer::start().expect("a server");
    let mut raw = server.client().expect("a connection");
    for missing in ["+zadd", "+zrem", "+zscore", "+zrange", "+zrangebyscore", "+zcount", "+zcard", "+incrby"]
    {
        let rule: Vec<_> = documented_rule().into_iter().filter(|right| right != missing).collect();
        let engine = engine_of(&server, &rule).await;
        let report = engine.audit().await.to_string();
        assert!(report.contains("permits that expire") && report.contains(missing), "{missing}: {report}");
        raw.command(&["FLUSHALL"]).expect("a reply");
        raw.command(&["SET", "locks:p", "2"]).expect("a reply");
        match engine.permits("p").wait(SECOND).acquire(2).await {
            Ok(permit) => permit.release().await.expect("what is granted can be released"),
            Err(AcquireError::Refused(error)) => {
                assert!(error.to_string().contains("grant the rights"), "{error}")
            }
            Err(error) => panic!("{missing}: {error:?}"),
        }
        assert_eq!(
            raw.command(&["GET", "locks:p"]).expect("a reply").text().as_deref(),
            Some("2"),
            "{missing}"
        );
        engine.shutdown(SECOND).await;
    }
}

#[tokio::test]
async fn out_of_memory_permits_are_kept_and_given_back_and_none_is_granted() {
    let fixture = Fixture::new();
    let engine =
        fixture.builder().ttl(3 * SECOND).unavailable_after(30 * SECOND).build().await.expect("an engine");
    let permits = engine.permits("p");
    permits.try_set_total(3).await.expect("an answer");
    let held = permits.acquire(2).await.expect("two permits");
    fixture.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let taking = tokio::spawn(permits.acquire(1));
    tokio::time::sleep(4 * SECOND).await;
    assert!(!taking.is_finished(), "no memory for a grant");
    held.ensure_held().expect("renewals need no memory");
    held.release().await.expect("nor does a release");
    fixture.command(&["CONFIG", "SET", "maxmemory", "0"]);
    taking.await.expect("no panic").expect("granted once there is memory").release().await.expect("held");
    assert_eq!(permits.available().await.expect("an answer"), 3);
}
