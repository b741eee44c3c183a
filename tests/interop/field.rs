//! The three experiments that teams make before they trust a lock, on both sides: no lease time and no unlock, a lease
//! time shorter than the work, and the watchdog at a third.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use leasehold::{LossReason, ReleaseError};
use leasehold_tests::harness::{
    deployment::Topology,
    polling::{found_within, holds_within},
};

use crate::fixture::{Fixture, SOON, Side, asks};

const TTL: Duration = Duration::from_secs(3);

leasehold_tests::on_every_topology!(
    no_lease_time_and_no_unlock_java_holds_for_as_long_as_its_process_lives,
    no_lease_time_and_no_release_we_hold_for_as_long_as_the_lease_lives,
    javas_lease_time_is_shorter_than_its_work_we_get_the_lock_and_its_unlock_reports_the_loss,
    our_lease_without_renewal_is_shorter_than_our_work_java_gets_the_lock_and_release_reports_the_loss,
    javas_watchdog_and_our_renewal_renew_at_a_third,
);

async fn no_lease_time_and_no_unlock_java_holds_for_as_long_as_its_process_lives(topology: Topology) {
    let mut fixture = Fixture::with_its_own_jvm(topology, TTL).await;
    let name = fixture.name.clone();
    fixture.java.call(&format!("lock a {name}")).expect("a free lock");
    let owners = fixture.owners();
    stays(&mut fixture, &owners);
    let Fixture { java, mut raw, servers: _servers, .. } = fixture;
    java.halt();
    let mut gone = || raw.command(&["EXISTS", &name]).expect("a reply").integer() == Some(0);
    assert!(!gone(), "nobody unlocked it");
    assert!(holds_within(SOON, gone));
}

async fn no_lease_time_and_no_release_we_hold_for_as_long_as_the_lease_lives(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let lease = fixture.engine.lock(&fixture.name).acquire().await.expect("a free lock");
    let owners = fixture.owners();
    stays(&mut fixture, &owners);
    assert!(lease.is_held());
    drop(lease);
    assert!(holds_within(SOON, || fixture.pttl() == -2));
}

/// For over two ttls the same owner is there, and never without an expiry.
fn stays(fixture: &mut Fixture, owners: &[String]) {
    assert_eq!(owners.len(), 1);
    let left = found_within(TTL * 5 / 2, || {
        let left = (fixture.pttl(), fixture.owners());
        (left.0 < 0 || left.1 != owners).then_some(left)
    });
    assert_eq!(left, None, "not {owners:?} any more");
}

async fn javas_lease_time_is_shorter_than_its_work_we_get_the_lock_and_its_unlock_reports_the_loss(
    topology: Topology,
) {
    let mut fixture = Fixture::new(topology, Duration::from_secs(30)).await;
    let name = fixture.name.clone();
    fixture.java.call(&format!("lock a {name} 1000")).expect("a free lock");
    let lease =
        fixture.engine.lock(&fixture.name).acquire().await.expect("granted at the end of Java's lease");
    let owners = fixture.owners();
    let unlocked = fixture.java.call(&format!("unlock a {name}"));
    assert!(
        unlocked.as_ref().is_err_and(|why| why.starts_with("IllegalMonitorStateException")),
        "{unlocked:?}"
    );
    assert_eq!(fixture.owners(), owners, "our hold is untouched");
    lease.release().await.expect("ours to the end");
}

async fn our_lease_without_renewal_is_shorter_than_our_work_java_gets_the_lock_and_release_reports_the_loss(
    topology: Topology,
) {
    let fixture = Fixture::new(topology, Duration::from_secs(30)).await;
    let name = fixture.name.clone();
    let lock = fixture.engine.lock(&name).ttl(Duration::from_secs(1)).no_renewal();
    let lease = lock.acquire().await.expect("a free lock");
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(!lease.is_held());
    fixture.java.call(&format!("lock a {name}")).expect("granted when ours is over");
    let released = lease.release().await;
    assert!(matches!(released, Err(ReleaseError::AlreadyLost(LossReason::Expired))), "{released:?}");
    assert_eq!(
        fixture.java.call(&format!("held a {name}")).as_deref(),
        Ok("true"),
        "Java's hold is untouched"
    );
}

async fn javas_watchdog_and_our_renewal_renew_at_a_third(topology: Topology) {
    let ttl = Duration::from_secs(3);
    // Of a JVM that has unlocked before, Redisson's watchdog may run more than once a period.
    let fixture = Fixture::with_its_own_jvm(topology, ttl).await;
    let (name, other) = (&fixture.name, format!("other-{}", fixture.name));
    fixture.java.call(&format!("lock a {name}")).expect("a free lock");
    let lease = fixture.engine.lock(&other).acquire().await.expect("a free lock");
    assert_at_a_third(&fixture, Side::Java, name, ttl);
    assert_at_a_third(&fixture, Side::Ours, &other, ttl);
    lease.release().await.expect("ours to the end");
}

/// The lock was taken once; between that and its next renewals never much less than a third of the ttl goes by, nor, on
/// a machine that is busy with other tests, so much that the lock would be lost. The exact third is shown in paused time.
fn assert_at_a_third(fixture: &Fixture, side: Side, name: &str, ttl: Duration) {
    let mut seen = Vec::new();
    assert!(holds_within(SOON, || {
        seen = sent(fixture, side, name);
        seen.len() >= 4
    }));
    for pair in seen[..4].windows(2) {
        let pause = pair[1] - pair[0];
        assert!(pause > ttl / 4 && pause < ttl * 9 / 10, "{pause:?} of {ttl:?}");
    }
}

/// When the scripts about a lock were sent. Of each the first is left out: a server that does not know it yet is sent it
/// once more.
fn sent(fixture: &Fixture, side: Side, name: &str) -> Vec<Instant> {
    let (mut sent, mut known) = (asks(&fixture.servers, side, name, None), HashSet::new());
    sent.retain(|request| request.command() == "EVAL" || !known.insert(request.arguments[1].clone()));
    sent.into_iter().map(|request| request.at).collect()
}
