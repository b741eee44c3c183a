//! Many locks acquired and released in one call, on real servers.

use leasehold::{AcquireError, Engine, EngineConfig};
use leasehold_tests::{changed, harness::deployment::Topology};

use crate::fixture::{Fixture, SECOND, until};

leasehold_tests::on_every_topology!(
    each_of_many_has_its_own_outcome_and_all_of_them_are_given_back,
    l7_many_that_are_dropped_or_shut_down_in_the_middle_leave_no_key,
);

const NAMES: usize = 2_000;

fn names() -> Vec<String> {
    (0..NAMES).map(|number| format!("k{number}")).collect()
}

async fn engine(fixture: &Fixture) -> Engine {
    let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 64);
    fixture.builder().config(config).build().await.expect("an engine")
}

async fn each_of_many_has_its_own_outcome_and_all_of_them_are_given_back(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let (engine, stranger) = (engine(&fixture).await, fixture.stranger().await);
    let theirs = stranger.lock("k7").acquire().await.expect("free");
    let outcomes = engine.acquire_all(names()).wait(SECOND).await;
    let mut leases = Vec::new();
    for (place, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(lease) => {
                assert!(lease.is_held() && lease.name() == format!("k{place}"));
                leases.push(lease);
            }
            Err(AcquireError::TimedOut { .. }) => assert_eq!(place, 7),
            Err(other) => panic!("k{place}: {other}"),
        }
    }
    assert_eq!((leases.len(), fixture.keys().len()), (NAMES - 1, NAMES));
    let asks = engine.snapshot().asks;
    assert!(asks <= NAMES as u64 + 10, "{asks} asks");
    let released = engine.release_all(leases).await;
    assert!(released.len() == NAMES - 1 && released.iter().all(Result::is_ok));
    assert_eq!(fixture.keys(), ["k7"]);
    theirs.release().await.expect("ours");
}

async fn l7_many_that_are_dropped_or_shut_down_in_the_middle_leave_no_key(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = engine(&fixture).await;
    let mut acquiring = engine.acquire_all(names()).start();
    let mut leases = Vec::new();
    for _ in 0..100 {
        leases.push(acquiring.next().await.expect("more").1.expect("free"));
    }
    drop(acquiring);
    drop(leases);
    until("all of it is given back", || fixture.is_empty()).await;
    until("nothing is left here", || {
        let seen = engine.snapshot();
        seen.held + seen.waiting + seen.entries + seen.closing == 0
    })
    .await;

    let mut acquiring = engine.acquire_all(names()).start();
    let mut leases = Vec::new();
    for _ in 0..100 {
        leases.push(acquiring.next().await.expect("more").1.expect("free"));
    }
    let report = engine.shutdown(20 * SECOND).await;
    assert!(report.released >= 100 && report.unconfirmed.is_empty(), "{report:?}");
    assert!(fixture.is_empty());
    while let Some((_, outcome)) = acquiring.next().await {
        assert!(matches!(outcome, Err(AcquireError::ShuttingDown)), "{outcome:?}");
    }
}
