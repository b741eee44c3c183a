//! Whoever holds is renewed, and the other side does not get in.

use std::time::{Duration, Instant};

use leasehold::AcquireError;

use crate::ground::{Ground, NAME};

const TTL: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javas_watchdog_keeps_us_out_for_over_two_of_its_periods() {
    let mut ground = Ground::new(TTL).await;
    ground.java.call(&format!("lock a {NAME}")).expect("a free lock");
    let waited = ground.engine.lock(NAME).wait(TTL * 5 / 2).acquire().await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    assert_eq!(ground.java.call(&format!("held a {NAME}")).as_deref(), Ok("true"));
    ground.java.call(&format!("unlock a {NAME}")).expect("it is Java's");
    assert!(ground.engine.lock(NAME).try_acquire().await.expect("an answer").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_renewal_keeps_java_out_for_over_two_of_our_ttls() {
    let mut ground = Ground::new(TTL).await;
    let lease = ground.engine.lock(NAME).acquire().await.expect("a free lock");
    let wait = TTL * 5 / 2;
    let before = Instant::now();
    let tried = ground.java.call(&format!("trylock a {NAME} {}", wait.as_millis()));
    assert_eq!(tried.as_deref(), Ok("false"));
    assert!(before.elapsed() >= wait && lease.is_held());
    lease.release().await.expect("ours to the end");
    assert_eq!(ground.java.call(&format!("trylock a {NAME} 0")).as_deref(), Ok("true"));
}
