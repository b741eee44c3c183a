//! Servers that answer, but not as wanted: busy, loading, read-only, out of memory, with somebody else's data.

use std::time::Duration;

use leasehold::{AcquireError, Engine, ReleaseError};
use leasehold_tests::harness::redis_server::RedisServer;

use crate::{
    fixture::{Fixture, SECOND, until},
    tally::Tally,
};

/// Gives up soon, so that trouble shows as an error.
async fn engine(fixture: &Fixture) -> Engine {
    fixture.builder().unavailable_after(SECOND).ttl(6 * SECOND).build().await.expect("an engine")
}

/// The trouble behind "unavailable", within the time that was promised (L3: the limit and one command timeout).
async fn last_error(engine: &Engine, name: &str) -> String {
    let began = std::time::Instant::now();
    let answer = engine.lock(name).try_acquire().await;
    let took = began.elapsed();
    assert!(took < 3 * SECOND, "{took:?}");
    match answer {
        Err(AcquireError::Unavailable { last_error: Some(last_error), .. }) => last_error.to_string(),
        other => panic!("unavailable, not {other:?}"),
    }
}

#[tokio::test]
async fn s10_a_key_of_another_type_is_a_final_error_and_keeps_every_byte() {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let writes: [&[&str]; 5] = [
        &["SET", "string", "v"],
        &["RPUSH", "list", "v"],
        &["SADD", "set", "v"],
        &["ZADD", "zset", "1", "v"],
        &["XADD", "stream", "1-1", "f", "v"],
    ];
    for write in writes {
        let name = write[1];
        fixture.command(write);
        let before = fixture.command(&["DUMP", name]);
        let error = engine.lock(name).acquire().await.expect_err("no lock");
        let said = error.to_string();
        assert!(matches!(error, AcquireError::Refused(_)) && said.contains("use another name"), "{said}");
        engine.lock(name).force_release().await.expect_err("no lock");
        engine.lock(name).holder().await.expect_err("no lock");
        let after = [fixture.command(&["DUMP", name]), fixture.command(&["PTTL", name])];
        assert!(after[0] == before && after[1].integer() == Some(-1), "{name}");
    }
}

#[tokio::test]
async fn s9_a_peers_lock_without_expiry_is_told_once_and_polled_until_it_is_gone() {
    let (fixture, tally) = (Fixture::new(), Tally::default());
    let engine = fixture.builder().recorder(tally.clone()).build().await.expect("an engine");
    fixture.command(&["HSET", "k", "5f1c7a3e-6a4b-4a50-9f29-0d6a3c1e9b77:63", "1"]);
    assert!(engine.lock("k").try_acquire().await.expect("an answer").is_none());
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(engine.lock("k").acquire())).collect();
    // Two safety polls: it is polled, and told no second time.
    let asks = engine.snapshot().asks;
    until("it polls", || engine.snapshot().asks >= asks + 3).await;
    assert!(engine.lock("k").try_acquire().await.expect("an answer").is_none());
    until("the recorder has been told", || tally.no_expiry() >= 1).await;
    assert_eq!(tally.no_expiry(), 1);
    assert_eq!(fixture.pttl_ms("k"), -1);
    // Without any notice.
    fixture.command(&["DEL", "k"]);
    for waiting in waiting {
        let lease = tokio::time::timeout(5 * SECOND, waiting).await.expect("in time");
        lease.expect("no panic").expect("a lease").release().await.expect("released");
    }
}

#[tokio::test]
async fn s9_out_of_memory_an_acquire_is_refused_and_renewal_and_release_work() {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let lease = engine.lock("held").acquire().await.expect("a lease");
    fixture.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let said = last_error(&engine, "other").await;
    assert!(said.contains("OOM") && said.contains("maxmemory-policy"), "{said}");
    lease.renew(30 * SECOND).await.expect("renewed");
    assert!(fixture.pttl_ms("held") > 20_000);
    lease.release().await.expect("ours to the end");
    assert!(fixture.is_empty());
    fixture.command(&["CONFIG", "SET", "maxmemory", "0"]);
    engine.lock("other").acquire().await.expect("a lease").release().await.expect("released");
}

/// Nothing was executed: no owner is left to be closed.
async fn assert_recovers(engine: &Engine, fixture: &Fixture, lease: leasehold::Lease) {
    until("a lease is to be had", || engine.snapshot().connected).await;
    let other = engine.lock("other").wait(5 * SECOND).acquire().await.expect("a lease");
    other.release().await.expect("ours to the end");
    assert!(lease.is_held());
    lease.release().await.expect("ours to the end");
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    assert!(fixture.is_empty() && engine.snapshot().lost == 0);
}

#[tokio::test]
async fn l5_a_server_busy_with_a_script_is_unavailable_and_comes_back() {
    let fixture = Fixture::on(RedisServer::builder().option("--busy-reply-threshold", "50"));
    let engine = engine(&fixture).await;
    let lease = engine.lock("held").acquire().await.expect("a lease");
    let mut hog = fixture.raw();
    hog.send(&["EVAL", "while true do end", "0"]).expect("sent");
    until("it is busy", || fixture.command(&["GET", "x"]).error().is_some_and(|why| why.starts_with("BUSY")))
        .await;
    let said = last_error(&engine, "other").await;
    assert!(said.contains("BUSY") || said.contains("check"), "{said}");
    assert!(fixture.command(&["SCRIPT", "KILL"]).is_ok());
    assert_recovers(&engine, &fixture, lease).await;
}

#[tokio::test]
async fn l5_a_server_that_became_a_replica_is_unavailable_and_comes_back() {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let lease = engine.lock("held").acquire().await.expect("a lease");
    // Of a master that is not there: its data stays.
    assert!(fixture.command(&["REPLICAOF", "127.0.0.1", "1"]).is_ok());
    let said = last_error(&engine, "other").await;
    assert!(said.contains("point `addresses` at the master"), "{said}");
    assert!(fixture.command(&["REPLICAOF", "NO", "ONE"]).is_ok());
    assert_recovers(&engine, &fixture, lease).await;
}

/// Loading takes a few seconds: the server is told to be slow at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_a_server_that_loads_its_data_is_unavailable_and_comes_back() {
    let fixture = Fixture::on(
        RedisServer::builder()
            // Microseconds a key.
            .option("--key-load-delay", "2000")
            .option("--loading-process-events-interval-bytes", "1024"),
    );
    let engine =
        fixture.builder().unavailable_after(SECOND).ttl(20 * SECOND).build().await.expect("an engine");
    for n in 0..1_200 {
        fixture.command(&["SET", &format!("data{n}"), &"x".repeat(200), "PX", "20000"]);
    }
    let lease = engine.lock("held").acquire().await.expect("a lease");
    assert!(fixture.command(&["SAVE"]).is_ok());
    let said = std::thread::scope(|scope| {
        let restarted = scope.spawn(|| fixture.server.restart().expect("restarted"));
        let said = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                last_error(&engine, "other").await
            })
        });
        assert!(!restarted.is_finished(), "it still loads");
        said
    });
    assert!(said.contains("LOADING"), "{said}");
    fixture.command(&[
        "EVAL",
        "for _, k in ipairs(redis.call('keys', 'data*')) do redis.call('del', k) end",
        "0",
    ]);
    assert_recovers(&engine, &fixture, lease).await;
}

/// Accepts and never answers, after it was there.
#[tokio::test]
async fn l3_in_a_black_hole_every_call_returns_within_its_time_and_one_command_timeout() {
    let fixture = Fixture::new();
    let engine = engine(&fixture).await;
    let lease = engine.lock("held").ttl(60 * SECOND).acquire().await.expect("a lease");
    fixture.proxy.black_hole(true);
    let began = std::time::Instant::now();
    let waits = [0, 300, 5_000].map(|ms| {
        let acquire = engine.lock(format!("w{ms}")).wait(Duration::from_millis(ms)).acquire();
        tokio::spawn(async move { (acquire.await.map(drop), ms, began.elapsed()) })
    });
    let tried = engine.lock("t").try_acquire().await;
    assert!(matches!(tried, Err(AcquireError::Unavailable { .. })), "{tried:?}");
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    for wait in waits {
        let (answer, ms, took) = wait.await.expect("no panic");
        assert!(
            matches!(answer, Err(AcquireError::Unavailable { last_error: Some(_), .. })),
            "{ms} ms, and no server said that it is held: {answer:?}"
        );
        // The earlier of the wait and `unavailable_after`, one command timeout, and what a busy machine takes.
        assert!(took < Duration::from_millis(ms).min(SECOND) + 2 * SECOND, "{ms}: {took:?}");
    }
    assert!(lease.is_held());
    fixture.proxy.black_hole(false);
    // The lane is about to be back: the release is confirmed if it is in time, and never told as a loss.
    let released = lease.release().await;
    assert!(matches!(released, Ok(()) | Err(ReleaseError::Unknown { .. })), "{released:?}");
    until("every owner is closed and no key is left", || {
        engine.snapshot().closing == 0 && fixture.is_empty()
    })
    .await;
}
