//! Requests that reach the server when nobody waits for them any more.

use std::time::Duration;

use leasehold::{Engine, Lease, RenewError};
use leasehold_tests::harness::{
    deployment::Topology,
    proxy::{Fault, Rule, RuleHandle},
};

use crate::{
    commands::{Kind, latest_of_acquire, owner_of_acquire},
    fixture::{Fixture, SECOND, until},
};

leasehold_tests::on_every_topology!(
    s5_a_first_send_that_arrives_while_its_lease_is_held_counts_nothing,
    s5_a_first_send_that_arrives_in_time_behind_the_release_is_gone_a_second_after_its_latest_time,
    s5_a_first_send_that_arrives_after_its_latest_time_never_appears,
    s2_a_late_shorter_renewal_does_not_shorten,
);

const TTL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(2);

/// A lease whose first send is held back in the network, and whose second send was granted.
struct SentTwice {
    fixture: Fixture,
    engine: Engine,
    lease: Lease,
    first: RuleHandle,
    latest: u64,
}

impl SentTwice {
    async fn new(topology: Topology) -> Self {
        let fixture = Fixture::of_topology(topology);
        let engine = fixture.builder().command_timeout(TIMEOUT).build().await.expect("an engine");
        let first = fixture.proxy.rule(Rule::once(Kind::Acquire.matching(), Fault::HoldRequest));
        let asking = tokio::spawn(engine.lock("k").ttl(TTL).acquire());
        first.wait_fired(1).await;
        // The client learns at once that its request is lost, so it sends again while the first may still be executed.
        fixture.proxy.cut_all();
        let lease = asking.await.expect("no panic").expect("a lease");
        let asks = Kind::Acquire.seen(&fixture.proxy);
        assert!(
            asks.len() >= 2 && asks.iter().all(|ask| owner_of_acquire(ask) == owner_of_acquire(&asks[0]))
        );
        let latest = latest_of_acquire(&asks[0]);
        Self { fixture, engine, lease, first, latest }
    }

    /// The first send arrives; what the server answers to it begins with this.
    fn deliver(&self) -> i64 {
        deliver(&self.first)[0]
    }
}

/// The numbers that its answer begins with.
fn deliver(held: &RuleHandle) -> Vec<i64> {
    let answers = held.deliver(5 * SECOND).expect("an answer");
    assert_eq!(answers.len(), 1);
    answers[0].items().iter().map_while(|item| item.integer()).collect()
}

async fn s5_a_first_send_that_arrives_while_its_lease_is_held_counts_nothing(topology: Topology) {
    let sent = SentTwice::new(topology).await;
    assert_eq!(sent.deliver(), 1, "granted again");
    assert!(sent.fixture.is_held_once("k") && sent.lease.is_held());
    sent.lease.release().await.expect("ours to the end");
    until("its owner is closed", || sent.engine.snapshot().closing == 0).await;
    assert!(sent.fixture.is_empty());
}

async fn s5_a_first_send_that_arrives_in_time_behind_the_release_is_gone_a_second_after_its_latest_time(
    topology: Topology,
) {
    let SentTwice { fixture, engine, lease, first, latest } = SentTwice::new(topology).await;
    lease.release().await.expect("ours to the end");
    assert!(fixture.is_empty());
    let answer = deliver(&first);
    assert!(answer[0] == 1 && answer[1].unsigned_abs() < latest, "granted in time: {answer:?}, {latest}");
    until("it is gone", || fixture.is_empty()).await;
    let gone = fixture.server_time();
    println!("gone {} ms after its latest time", (i128::from(gone) - i128::from(latest)) / 1_000);
    assert!(gone < latest + 1_000_000, "{gone} {latest}");
    until("its owner is closed", || engine.snapshot().closing == 0).await;
    assert!(fixture.is_empty() && fixture.server_time() > latest);
}

async fn s5_a_first_send_that_arrives_after_its_latest_time_never_appears(topology: Topology) {
    let SentTwice { fixture, engine, lease, first, latest } = SentTwice::new(topology).await;
    lease.release().await.expect("ours to the end");
    until("its latest time is over", || fixture.server_time() > latest).await;
    until("its owner is closed", || engine.snapshot().closing == 0).await;
    fixture.command(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    let mut ear = fixture.raw();
    ear.command(&["SUBSCRIBE", "__keyspace@0__:k", "end"]).expect("a reply");
    assert_eq!(ear.read().expect("the second reply").texts(), ["subscribe", "end"]);
    assert_eq!(deliver(&first)[0], 2, "too late");
    fixture.command(&["PUBLISH", "end", "0"]);
    // Nothing happened to the key: the first message is the last.
    assert_eq!(ear.read().expect("a message").texts(), ["message", "end", "0"]);
    assert!(fixture.is_empty());
}

async fn s2_a_late_shorter_renewal_does_not_shorten(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().command_timeout(TIMEOUT).build().await.expect("an engine");
    let lease = engine.lock("k").ttl(15 * SECOND).acquire().await.expect("a lease");
    let rule = fixture.proxy.rule(Rule::once(Kind::Renewal.matching(), Fault::HoldRequest));
    let shorter = tokio::spawn(lease.renew(20 * SECOND));
    rule.wait_fired(1).await;
    fixture.proxy.cut_all();
    let unknown = shorter.await.expect("no panic");
    assert!(matches!(unknown, Err(RenewError::Unknown(_))), "{unknown:?}");
    while let Err(error) = lease.renew(TTL).await {
        assert!(matches!(error, RenewError::Unknown(_)), "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = fixture.pttl_ms("k");
    assert_eq!(deliver(&rule)[0], 1, "it was executed");
    let after = fixture.pttl_ms("k");
    assert!(before > 50_000 && after > 50_000, "{before} {after}");
    assert!(lease.remaining() > 50 * SECOND);
    until("both lanes are back", || engine.snapshot().connected).await;
    lease.release().await.expect("ours to the end");
}
