//! Whoever holds is renewed, and the other side does not get in.

use std::time::{Duration, Instant};

use leasehold::AcquireError;
use leasehold_tests::harness::deployment::Topology;

use crate::fixture::Fixture;

const TTL: Duration = Duration::from_secs(3);

leasehold_tests::on_every_topology!(
    javas_watchdog_keeps_us_out_for_over_two_of_its_periods,
    our_renewal_keeps_java_out_for_over_two_of_our_ttls,
);

async fn javas_watchdog_keeps_us_out_for_over_two_of_its_periods(topology: Topology) {
    let Fixture { java, engine, name, servers: _servers, .. } = Fixture::new(topology, TTL).await;
    java.call(&format!("lock a {name}")).expect("a free lock");
    let waited = engine.lock(&name).wait(TTL * 5 / 2).acquire().await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    assert_eq!(java.call(&format!("held a {name}")).as_deref(), Ok("true"));
    java.call(&format!("unlock a {name}")).expect("it is Java's");
    assert!(engine.lock(&name).try_acquire().await.expect("an answer").is_some());
}

async fn our_renewal_keeps_java_out_for_over_two_of_our_ttls(topology: Topology) {
    let Fixture { java, engine, name, servers: _servers, .. } = Fixture::new(topology, TTL).await;
    let lease = engine.lock(&name).acquire().await.expect("a free lock");
    let wait = TTL * 5 / 2;
    let before = Instant::now();
    let tried = java.call(&format!("trylock a {name} {}", wait.as_millis()));
    assert_eq!(tried.as_deref(), Ok("false"));
    assert!(before.elapsed() >= wait && lease.is_held());
    lease.release().await.expect("ours to the end");
    assert_eq!(java.call(&format!("trylock a {name} 0")).as_deref(), Ok("true"));
    java.call(&format!("unlock a {name}")).expect("it is Java's");
}
