//! Thousands of leases: what they cost, and what a step of its clock does to them.

use std::{sync::Arc, time::Duration};

use leasehold::{Engine, Lease};
use leasehold_tests::harness::{
    clock_shim::ClockShim, deployment::Topology, length, node::Node, redis_server::RedisServer,
    server_table::settles_empty,
};

use crate::{
    commands::{Kind, owner_of_acquire},
    contest::Contest,
    fixture::{Fixture, SECOND, hold, until},
    tally::Tally,
};

leasehold_tests::on_every_topology!(p5_leases_are_renewed_for_three_periods_by_few_commands);

/// What was sent: commands that run inside scripts are not counted here.
fn scripts_called(fixture: &Fixture) -> u64 {
    let masters = fixture.servers.masters().expect("masters");
    let stats = |master: &Arc<Node>| {
        let stats = master.command(&["INFO", "commandstats"]).expect("a reply");
        stats.text().expect("statistics")
    };
    let calls = |line: &str| {
        let (name, rest) = line.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<u64>().ok()?;
        matches!(name, "cmdstat_evalsha" | "cmdstat_eval").then_some(calls)
    };
    masters.iter().map(|master| stats(master).lines().filter_map(calls).sum::<u64>()).sum()
}

async fn p5_leases_are_renewed_for_three_periods_by_few_commands(topology: Topology) {
    let leases_held: u64 = if topology == Topology::Single || length::is_long() { 10_000 } else { 3_000 };
    let fixture = Fixture::of_topology(topology);
    let engine = fixture.builder_beside().ttl(6 * SECOND).build().await.expect("an engine");
    let leases = hold(&engine, 0..leases_held as usize).await;
    let (renewals, calls) = (engine.snapshot().renewals, scripts_called(&fixture));
    until("three periods", || engine.snapshot().renewals >= renewals + 3 * leases_held).await;
    let (calls, renewals) = (scripts_called(&fixture) - calls, engine.snapshot().renewals - renewals);
    println!("{calls} commands for {renewals} renewals");
    assert!(calls * 20 <= renewals, "{calls} commands for {renewals} renewals");
    let seen = engine.snapshot();
    assert!(leases.iter().all(|lease| lease.is_held()));
    assert_eq!((seen.held, seen.lost, seen.renewals_failed), (leases_held, 0, 0));
    let report = engine.shutdown(10 * SECOND).await;
    assert_eq!((report.released, report.unconfirmed.len()), (leases_held as usize, 0));
    assert!(fixture.is_empty());
}

/// The ttl leaves more than the step at any time, so that S1 excludes no loss here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_a_server_clock_that_steps_two_seconds_costs_no_lease_and_leaves_nothing_held_by_nobody() {
    const LEASES: usize = 1_000;
    let shim = ClockShim::new().expect("a shim");
    let fixture = Fixture::on(RedisServer::builder().env(shim.env()));
    let tally = Tally::default();
    let engine = fixture.builder().ttl(9 * SECOND).recorder(tally.clone()).build().await.expect("an engine");
    let leases = hold_spread(&engine, LEASES).await;
    let traffic = [engine.clone(), fixture.stranger().await];
    let contest = Contest::start(&traffic, "contested");
    for step_ms in [2_000, -2_000] {
        let (before, grants) = (engine.snapshot(), contest.grants());
        let too_late = tally.renewals_too_late();
        shim.step_realtime(step_ms).expect("stepped");
        until("each is renewed after the step", || {
            engine.snapshot().renewals >= before.renewals + LEASES as u64
        })
        .await;
        let too_late = tally.renewals_too_late() - too_late;
        println!("{step_ms} ms: {too_late} renewals too late, {} grants", contest.grants() - grants);
        assert!(too_late <= 2 * LEASES as u64, "{too_late}");
        assert!(contest.grants() > grants);
    }
    contest.over().await.assert_exclusive();
    assert!(leases.iter().all(|lease| lease.is_held()));
    assert_eq!(engine.snapshot().lost, 0);
    assert_sent_three_times_at_most(&fixture);
    for lease in leases {
        lease.release().await.expect("ours to the end");
    }
    drop((engine, traffic));
    // Well before a ttl would hide it.
    assert!(settles_empty(fixture.server.own_port(), 3 * SECOND));
}

/// Spread over a period, so that renewals are on their way at any time, also at the moment of a step.
async fn hold_spread(engine: &Engine, count: usize) -> Vec<Lease> {
    let mut leases = Vec::new();
    for n in 0..10 {
        leases.extend(hold(engine, n * count / 10..(n + 1) * count / 10).await);
        tokio::time::sleep(Duration::from_millis(280)).await;
    }
    leases
}

/// One send, and two more for "too late".
fn assert_sent_three_times_at_most(fixture: &Fixture) {
    let mut sends = std::collections::BTreeMap::<String, usize>::new();
    for ask in Kind::Acquire.seen(&fixture.proxy) {
        *sends.entry(owner_of_acquire(&ask)).or_default() += 1;
    }
    let most = sends.values().max().expect("asks");
    println!("{} owners, at most {most} sends of one", sends.len());
    assert!(*most <= 3, "{most}");
}
