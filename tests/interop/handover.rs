//! Who waits is woken by the message of who releases, on either side, and asks once.

use std::time::{Duration, Instant};

use leasehold_tests::harness::polling::holds_within;

use crate::ground::{Ground, NAME, SOON, asks};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_java_unlocks_and_we_are_granted_by_one_acquire_after_its_message() {
    let mut ground = Ground::new(TTL).await;
    ground.java.call(&format!("lock a {NAME}")).expect("a free lock");
    let lock = ground.engine.lock(NAME);
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    ground.listeners(1);
    ground.next_ask();
    let before = Instant::now();
    ground.java.call(&format!("unlock a {NAME}")).expect("it is Java's");
    let lease = waiting.await.expect("no panic").expect("granted");
    assert_eq!(asks(&ground.our_wire, NAME, Some(before)).len(), 1);
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    lease.release().await.expect("ours to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_we_release_and_java_is_granted_by_our_message_and_not_by_the_ttl() {
    let mut ground = Ground::new(TTL).await;
    let lease = ground.engine.lock(NAME).acquire().await.expect("a free lock");
    assert_eq!(ground.java.call(&format!("trylock a {NAME} 0")).as_deref(), Ok("false"), "we exclude Java");
    let tries = asks(&ground.java_wire, NAME, None).len();
    let waiting = ground.java.give(&format!("lock b {NAME}"));
    ground.listeners(1);
    // Behind its subscription Java asks once more; only then it sleeps.
    let last_try = || asks(&ground.java_wire, NAME, None).len() >= tries + 2;
    assert!(holds_within(SOON, last_try));
    assert!(!ground.java.has_answered(waiting));
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(ground.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(asks(&ground.java_wire, NAME, Some(before)).len(), 1, "one try of Java's");
}
