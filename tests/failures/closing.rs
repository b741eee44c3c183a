//! Releases that were not answered, once their server can be reached again.

use std::time::{Duration, Instant};

use leasehold::ReleaseError;
use leasehold_tests::harness::deployment::Topology;

use crate::{
    commands::Kind,
    fixture::{Fixture, SECOND, until},
};

leasehold_tests::on_every_topology!(s5_owners_are_asked_about_once_each_as_soon_as_their_server_is_connected);

async fn s5_owners_are_asked_about_once_each_as_soon_as_their_server_is_connected(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    let names = (0..LEASES).map(|number| format!("{{k}}{number}"));
    let leases: Result<Vec<_>, _> = engine.acquire_all(names).await.into_iter().collect();
    fixture.proxy.refuse(true);
    fixture.proxy.cut_all();
    let cut = Instant::now();
    let released = engine.release_all(leases.expect("leases")).await;
    assert!(
        released.iter().all(|answer| matches!(answer, Err(ReleaseError::Unknown { .. }))),
        "{released:?}"
    );
    // By then a back-off of its own would let each owner wait for seconds more.
    tokio::time::sleep(OUTAGE.saturating_sub(cut.elapsed())).await;
    let before = fixture.seen(Kind::Release).len();
    fixture.proxy.refuse(false);
    until("it is connected", || engine.snapshot().connected).await;
    let connected = Instant::now();
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    println!("{topology:?}: {LEASES} owners closed {:?} after the connection", connected.elapsed());
    // A busy machine is allowed ten times what it should be.
    assert!(connected.elapsed() < SECOND, "{:?}", connected.elapsed());
    assert_eq!(fixture.seen(Kind::Release).len() - before, LEASES, "one release each");
    assert!(fixture.is_empty());
}

const LEASES: usize = 20;
const OUTAGE: Duration = Duration::from_secs(8);
