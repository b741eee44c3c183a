//! How many commands are sent, counted on the wire.

use leasehold::Engine;
use leasehold_tests::harness::{deployment::Topology, proxy::SeenRequest};

use crate::{
    commands::Kind,
    contest::Contest,
    fixture::{Fixture, until},
};

leasehold_tests::on_every_topology!(
    p5_an_uncontended_acquire_and_its_release_are_one_command_each,
    p5_a_lock_known_to_be_held_costs_no_command,
    p10_a_grant_among_n_waiting_processes_costs_at_most_n_plus_two_commands,
);

/// But for the probe of a cluster's connections, which asks whether scripts may span slots.
fn scripts_sent(fixture: &Fixture) -> u64 {
    let is_probe = |request: &SeenRequest| request.arguments.len() <= 3;
    fixture.sent(|request| request.command().starts_with("EVAL") && !is_probe(request)).len() as u64
}

async fn p5_an_uncontended_acquire_and_its_release_are_one_command_each(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    // From the first on: a server that has never seen our scripts makes no difference.
    for pairs in 1..=100 {
        let lease = engine.lock(format!("k{}", pairs % 7)).acquire().await.expect("a lease");
        lease.release().await.expect("released");
        assert_eq!(fixture.seen(Kind::Acquire).len(), pairs);
        assert_eq!(fixture.seen(Kind::Release).len(), pairs);
        assert_eq!(scripts_sent(&fixture), 2 * pairs as u64);
    }
    assert!(fixture.sent(|request| request.command().ends_with("SUBSCRIBE")).is_empty());
    assert_eq!(engine.snapshot().asks, 100);
}

async fn p5_a_lock_known_to_be_held_costs_no_command(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder().build().await.expect("an engine");
    let _lease = engine.lock("k").acquire().await.expect("a lease");
    for _ in 0..10 {
        assert!(engine.lock("k").try_acquire().await.expect("an answer").is_none());
    }
    assert_eq!(scripts_sent(&fixture), 1);
}

/// Each process asks once per notice, and once behind its own release.
async fn p10_a_grant_among_n_waiting_processes_costs_at_most_n_plus_two_commands(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let mut engines: Vec<Engine> = Vec::new();
    for _ in 0..PROCESSES {
        engines.push(fixture.builder().build().await.expect("an engine"));
    }
    let contest = Contest::start(&engines, "k");
    until("enough grants", || contest.grants() >= 400).await;
    let grants = contest.end().await;
    let commands = scripts_sent(&fixture);
    println!("{commands} commands for {grants} grants among {PROCESSES} processes");
    assert!(commands <= grants * (PROCESSES as u64 + 2), "{commands} for {grants}");
}

const PROCESSES: usize = 4;
