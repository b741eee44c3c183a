//! Who waits is woken by the message of who releases, on either side, and asks once. On a cluster the message is a sharded
//! one.

use std::time::{Duration, Instant};

use leasehold_tests::harness::{deployment::Topology, polling::holds_within};

use crate::fixture::{Fixture, SOON, Side};

const TTL: Duration = Duration::from_secs(30);

leasehold_tests::on_every_topology!(
    l2_java_unlocks_and_we_are_granted_by_one_acquire_after_its_message,
    l2_we_release_and_java_is_granted_by_our_message_and_not_by_the_ttl,
);

async fn l2_java_unlocks_and_we_are_granted_by_one_acquire_after_its_message(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    fixture.java.call(&format!("lock a {name}")).expect("a free lock");
    let lock = fixture.engine.lock(&name);
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    fixture.listeners(1);
    let mut ear = fixture.ear();
    fixture.next_ask();
    let before = Instant::now();
    fixture.java.call(&format!("unlock a {name}")).expect("it is Java's");
    let lease = waiting.await.expect("no panic").expect("granted");
    assert_eq!(fixture.asks(Side::Ours, Some(before)).len(), 1);
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    fixture.assert_was_told(&mut ear);
    lease.release().await.expect("ours to the end");
}

async fn l2_we_release_and_java_is_granted_by_our_message_and_not_by_the_ttl(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.lock(&name).acquire().await.expect("a free lock");
    assert_eq!(fixture.java.call(&format!("trylock a {name} 0")).as_deref(), Ok("false"), "we exclude Java");
    let tries = fixture.asks(Side::Java, None).len();
    let waiting = fixture.java.give(&format!("lock b {name}"));
    fixture.listeners(1);
    let mut ear = fixture.ear();
    // Behind its subscription Java asks once more; only then it sleeps.
    let last_try = || fixture.asks(Side::Java, None).len() >= tries + 2;
    assert!(holds_within(SOON, last_try));
    assert!(!fixture.java.has_answered(waiting));
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(fixture.asks(Side::Java, Some(before)).len(), 1, "one try of Java's");
    fixture.assert_was_told(&mut ear);
    fixture.java.call(&format!("unlock b {name}")).expect("it is Java's");
}
