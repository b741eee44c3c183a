//! How a server's clock stands to ours is told, and its steps are seen within seconds.

use std::time::Duration;

use leasehold::Engine;
use leasehold_tests::{
    conservation::Numbers,
    harness::{clock_shim::ClockShim, redis_server::RedisServer},
};

use crate::fixture::{Fixture, until};

fn offset(engine: &Engine) -> f64 {
    Numbers::of(engine).total("leasehold_clock_offset_seconds", |labels| labels[0] == "redis")
}

/// Whether the clock is so far ahead, but for the way of a reply.
fn is_about(engine: &Engine, seconds: f64) -> bool {
    (offset(engine) - seconds).abs() < SLACK.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_offset_of_a_servers_clock_follows_its_steps() {
    let shim = ClockShim::new().expect("a shim");
    let fixture = Fixture::on(RedisServer::builder().env(shim.env()));
    let engine = fixture.builder().metrics().build().await.expect("an engine");
    assert!(is_about(&engine, 0.0), "one machine has one clock: {}", offset(&engine));
    for step in [7_000, -12_000, 5_000] {
        let before = offset(&engine);
        shim.step_realtime(step).expect("stepped");
        let after = before + step as f64 / 1e3;
        until("the step is told", || is_about(&engine, after)).await;
    }
    fixture.server.kill().expect("killed");
    until("a clock that nobody reads is not told", || {
        !Numbers::of(&engine).has("leasehold_clock_offset_seconds")
    })
    .await;
}

const SLACK: Duration = Duration::from_millis(500);
