//! An unlock of Java's that its server forgets, as a failover may: Java counts its re-entries in the lock, so the next turn
//! of the same thread goes one deeper, its unlock leads back to one, and nobody else gets in until an operator ends it.

use std::time::Duration;

use leasehold::AcquireError;
use leasehold_tests::harness::{deployment::Topology, polling::found_within};

use crate::fixture::Fixture;

leasehold_tests::on_every_topology!(what_java_has_unlocked_in_vain_it_keeps_until_it_is_forced);

async fn what_java_has_unlocked_in_vain_it_keeps_until_it_is_forced(topology: Topology) {
    let mut fixture = Fixture::with_its_own_jvm(topology, TTL).await;
    let name = fixture.name.clone();
    fixture.java.call(&format!("lock a {name}")).expect("a free lock");
    let [owner] = &fixture.owners()[..] else { panic!("one owner") };
    let owner = owner.clone();
    fixture.java.call(&format!("unlock a {name}")).expect("it is Java's");
    forget_the_unlock(&mut fixture, &owner);
    let waiting = tokio::spawn(fixture.engine.lock(&name).wait(2 * TTL).acquire());
    let let_go = found_within(2 * TTL, || {
        fixture.java.call(&format!("lock a {name}")).expect("its own lock");
        fixture.java.call(&format!("unlock a {name}")).expect("it is Java's");
        Some(fixture.owners()).filter(|owners| owners[..] != [owner.clone()])
    });
    assert_eq!(let_go, None, "turn after turn");
    let waited = waiting.await.expect("no panic");
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    let lock = fixture.engine.lock(&name);
    assert!(lock.force_release().await.expect("an answer"));
    let lease = lock.acquire().await.expect("free at last");
    lease.release().await.expect("ours to the end");
}

/// The lock is there again as it was before it.
fn forget_the_unlock(fixture: &mut Fixture, owner: &str) {
    let (name, ttl) = (fixture.name.clone(), TTL.as_millis().to_string());
    for command in [&["HSET", &name, owner, "1"][..], &["PEXPIRE", &name, &ttl]] {
        fixture.raw.command(command).expect("a reply");
    }
}

const TTL: Duration = Duration::from_secs(3);
