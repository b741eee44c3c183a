//! Whatever goes wrong with a server that wants a password, at whatever level somebody listens: no secret is told.

use std::time::{Duration, Instant};

use leasehold::{Engine, transport::Transport};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};

use crate::capture::{Capture, text_of_logs};

const PASSWORD: &str = "hunter2-is-no-word";
const NEXT: &str = "hunter2-next";

fn transport(server: &RedisServer) -> impl Transport + use<> {
    let mut config = RedisConfig::single("127.0.0.1", server.port());
    config.password = Some(Password::Value(Secret::new(PASSWORD)));
    RedisTransport::new(config)
}

async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let began = Instant::now();
    while !fact() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_told(capture: &Capture, message: &str) -> bool {
    capture.of_all_threads().iter().any(|record| record.field("message").is_some_and(|told| told == message))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_is_told_when_all_is_well_nor_through_reconnects_and_refusals() {
    let capture = Capture::start();
    let mut server = RedisServer::builder().password(PASSWORD).start().expect("a server");
    let engine = Engine::builder(transport(&server)).build().await.expect("an engine");
    let held = engine.lock("a").acquire().await.expect("free");
    let waiting = tokio::spawn(engine.lock("a").acquire()); // subscribes
    until("it waits", || engine.snapshot().waiting == 1).await;
    held.release().await.expect("ours to the end");
    drop(waiting.await.expect("no panic").expect("a lease"));
    drop(engine.audit().await);

    server.restart().expect("restarted");
    until("it is left and found again", || {
        is_told(&capture, "lost the connection to redis") && is_told(&capture, "connected to redis")
    })
    .await;
    until("it is connected", || engine.snapshot().connected).await;

    change_password(&server);
    until("it is refused", || is_told(&capture, "cannot connect to redis")).await;
    engine.lock("b").wait(Duration::from_millis(100)).try_acquire().await.expect_err("refused");
    assert!(Engine::builder(transport(&server)).build().await.is_err());

    let told = capture.of_all_threads();
    assert!(told.iter().any(|record| record.name == "lock.acquire"));
    let told: String = told.iter().map(|record| format!("{record} {record:?}\n")).collect();
    for (what, told) in [("tracing", told), ("log", text_of_logs())] {
        assert!(told.len() > 1_000, "{what}: nothing was listened to");
        for secret in [PASSWORD, NEXT] {
            let line = told.lines().find(|line| line.contains(secret));
            assert!(line.is_none(), "{what}: {}", line.unwrap_or_default().replace(secret, "***"));
        }
    }
}

/// And everybody has to come again.
fn change_password(server: &RedisServer) {
    let mut client: RawClient = server.client().expect("a connection");
    for command in [
        &["AUTH", PASSWORD][..],
        &["CONFIG", "SET", "requirepass", NEXT],
        &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        &["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"],
    ] {
        let reply = client.command(command).expect("a reply");
        assert!(reply.error().is_none(), "{:?}", reply.error());
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
