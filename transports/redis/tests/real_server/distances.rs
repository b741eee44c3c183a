//! Servers that are far: hundreds of milliseconds for each round trip.

use std::{fmt::Debug, time::Duration};

use crate::{far::far, server::*};
use leasehold::{Engine, owner::OwnerMint, transport::*};
use leasehold_redis::{RedisConfig, RedisTransport};

fn connections(server: &Server) -> u64 {
    let stats = server.cli(&["info", "stats"]);
    let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}

/// Idle for longer than it takes the watchdog to ask twice in vain, then busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_connections_to_a_far_server_stand_idle_and_busy() {
    for round_trip_ms in [320, 440] {
        let server = Server::start();
        let port = far(server.port, Duration::from_millis(round_trip_ms / 2));
        let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
        let (lane, mint) = (open(&transport, LanePurpose::Calls).await.unwrap(), OwnerMint::new());
        let before = connections(&server);
        tokio::time::sleep(Duration::from_secs(6)).await;
        for n in 0..5 {
            let granted = lane.call_one(acquire(&mint, &format!("k{n}"))).await.into_result();
            assert!(matches!(granted, Ok(Outcome::Granted { .. })), "{granted:?}");
        }
        // `redis-cli` connects once for each look.
        assert_eq!(connections(&server) - before - 1, 0, "new connections at {round_trip_ms} ms");
    }
}

/// Of free names, so that nothing but the link is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l3_callers_of_a_far_server_are_all_granted_and_released_and_are_sent_once() {
    for (round_trip_ms, callers) in [(60, 10_000), (300, 5_000)] {
        let (server, engine) = far_engine(round_trip_ms).await;
        let leases = all(callers, |n| engine.lock(format!("l{n}")).acquire()).await;
        assert_eq!(server.cli(&["dbsize"]), callers.to_string());
        let mut leases = leases.into_iter();
        all(callers, |_| leases.next().expect("one each").release()).await;
        assert_eq!(server.cli(&["dbsize"]), "0");
        let called = script_calls(&server);
        println!("{round_trip_ms} ms, {callers} callers: {called} scripts");
        // Of those that were sent before the engine knew which servers answer, some went alone, beside questions.
        assert!(called <= 3 * callers, "{called} scripts at {round_trip_ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l3_callers_of_every_kind_are_all_granted_by_a_far_server() {
    const CALLERS: usize = 2_000;
    let (_server, engine) = far_engine(300).await;
    all(CALLERS, |n| engine.rw_lock(format!("r{n}")).read().acquire()).await;
    all(CALLERS, |n| engine.rw_lock(format!("w{n}")).write().acquire()).await;
    all(CALLERS, |n| engine.fenced_lock(format!("f{n}")).acquire()).await;
    all(CALLERS, |n| engine.fair_lock(format!("q{n}")).acquire()).await;
    all(CALLERS, |n| {
        let permits = engine.permits(format!("p{n}"));
        async move {
            assert!(permits.try_set_total(1).await.expect("an answer"));
            permits.acquire(1).await
        }
    })
    .await;
    all(CALLERS, |n| {
        let semaphore = engine.semaphore(format!("s{n}"));
        async move {
            assert!(semaphore.try_set(1).await.expect("an answer"));
            semaphore.acquire(1).await
        }
    })
    .await;
}

async fn far_engine(round_trip_ms: u64) -> (Server, Engine) {
    let server = Server::start();
    let port = far(server.port, Duration::from_millis(round_trip_ms / 2));
    let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
    let engine = Engine::builder(transport).build().await.expect("the server is up");
    (server, engine)
}

/// The answers of calls that are made at once. None of them is an error.
async fn all<T, E, F>(callers: usize, call: impl FnMut(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    E: Debug + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let calls: Vec<_> = (0..callers).map(call).map(tokio::spawn).collect();
    let mut answers = Vec::with_capacity(callers);
    for call in calls {
        answers.push(call.await.expect("no panic").expect("an answer"));
    }
    answers
}

fn script_calls(server: &Server) -> usize {
    let stats = server.cli(&["info", "commandstats"]);
    let of = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<usize>().ok();
    stats.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(of).sum()
}
