//! Leases behind a link with a round trip: a link that can carry the renewals loses none of them.

use std::time::Duration;

use leasehold::{Engine, EngineConfig, Lease, routing::topology::Batching};
use leasehold_memory::MemoryTransport;
use leasehold_tests::changed;

use crate::fixture::{Cluster, Far, builder, millis, pass, seconds};

const TTL: Duration = seconds(30);
/// A lease is lost unless a renewal is confirmed this long after the last one was sent.
const DEADLINE: Duration = millis(28_500);
/// The default of `batches_in_flight_max`.
const IN_FLIGHT: u64 = 4;

fn config(shards: usize) -> EngineConfig {
    changed(EngineConfig::default(), |new| {
        new.shards = shards;
        new.ttl_ms = TTL.as_millis() as u64;
    })
}

/// Takes the leases evenly over a third of the ttl.
async fn hold(engine: &Engine, count: usize) -> Vec<Lease> {
    let mut leases = Vec::with_capacity(count);
    for number in 0..count {
        leases.push(engine.lock(format!("{number}")).acquire().await.expect("a free lock"));
        if number % (count / 200) == 0 {
            pass(TTL / 600).await;
        }
    }
    leases
}

/// The share of the link that renewing each lease once in every [`DEADLINE`] takes.
fn share_of_the_link(leases: usize, batch: u64, round_trip: Duration) -> f64 {
    let needed = leases as f64 / DEADLINE.as_secs_f64();
    needed * round_trip.as_secs_f64() / (IN_FLIGHT * batch) as f64
}

/// 100,000 leases in batches of 100, for 38 s at each round trip; with the longest the renewals take 0.95 of the link.
async fn none_is_lost_up_to_95_percent_of_the_link(shards: usize) {
    const LEASES: usize = 100_000;
    let cluster = Cluster::new(1);
    cluster.take_batches(Batching::AcrossSlots, 100);
    let link = Far::new(cluster);
    let engine = builder(&link).config(config(shards)).build().await.expect("an engine");
    let leases = hold(&engine, LEASES).await;
    for (round_trip, share) in [(1, 0.01), (10, 0.09), (40, 0.35), (100, 0.88), (108, 0.95)] {
        let round_trip = millis(round_trip);
        assert!((share_of_the_link(LEASES, 100, round_trip) - share).abs() < 0.005);
        link.set_round_trip(round_trip);
        link.take_sent();
        pass(DEADLINE + TTL / 3).await;
        let (batches, members) = link.take_sent();
        let lost = engine.snapshot().lost;
        println!("{shards} shards, {round_trip:?}: {batches} batches, {members} renewals, {lost} lost");
        assert_eq!(lost, 0, "{shards} shards, a round trip of {round_trip:?}");
    }
    assert!(leases.iter().all(Lease::is_held));
}

#[tokio::test(start_paused = true)]
async fn l4_on_a_link_that_can_carry_all_leases_none_is_lost() {
    none_is_lost_up_to_95_percent_of_the_link(8).await;
}

#[tokio::test(start_paused = true)]
async fn l4_with_one_shard_such_a_link_loses_none() {
    none_is_lost_up_to_95_percent_of_the_link(1).await;
}

#[tokio::test(start_paused = true)]
async fn l4_with_64_shards_such_a_link_loses_none() {
    none_is_lost_up_to_95_percent_of_the_link(64).await;
}

#[tokio::test(start_paused = true)]
async fn l4_batches_leave_full_when_the_link_is_scarce() {
    const LEASES: usize = 20_000;
    let link = Far::new(MemoryTransport::new()); // takes batches of 1,000
    let engine = builder(&link).config(config(8)).build().await.expect("an engine");
    link.set_round_trip(millis(250));
    let leases = hold(&engine, LEASES).await;
    pass(seconds(60)).await;
    let (batches, members) = link.take_sent();
    let lost = engine.snapshot().lost;
    println!("{batches} batches, {members} renewals, {lost} lost");
    assert_eq!(lost, 0);
    assert!(leases.iter().all(Lease::is_held));
}
