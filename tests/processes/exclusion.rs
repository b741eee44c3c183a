//! The main run: many tasks, several processes, some locks, on one server, on sentinels and on a cluster.

use std::time::Duration;

use leasehold_tests::harness::checkers::process_changes;
use leasehold_tests::harness::length;
use leasehold_tests::harness::seed::seed;
use leasehold_tests::harness::stall::unless_stalled;

use crate::lineup::{Entrant, Lineup, Outcome};
use crate::servers::Servers;

#[test]
fn s1_s6_64_tasks_in_4_processes_on_16_keys_for_20_s_on_redis_exclude_each_other_and_take_turns() {
    exclude_each_other("exclusion", &Servers::single(), FULL_S, 20_000);
}

#[test]
fn s1_s6_64_tasks_in_4_processes_on_16_keys_on_redis_sentinel_exclude_each_other_and_take_turns() {
    exclude_each_other("exclusion on sentinels", &Servers::sentinel(), in_short(), 200 * in_short());
}

#[test]
fn s1_s6_64_tasks_in_4_processes_on_16_keys_on_redis_cluster_exclude_each_other_and_take_turns() {
    exclude_each_other("exclusion on a cluster", &Servers::cluster(), in_short(), 200 * in_short());
}

/// `grants` at least: where six servers share the machine with the contenders there are fewer.
fn exclude_each_other(name: &str, servers: &Servers, seconds: u64, grants: u64) {
    unless_stalled(|| contend(name, servers, seconds, grants));
}

fn contend(name: &str, servers: &Servers, seconds: u64, grants: u64) {
    let outcome = contest(servers, seconds);
    outcome.print(name);
    outcome.assert_healthy();
    assert_turns(&outcome, usize::try_from(grants).expect("not many"));
    let by_master = servers.grants_by_master(&outcome.windows);
    println!("{name}: grants per master {by_master:?}");
    assert_eq!(by_master.len(), servers.masters(), "a master without a key: {by_master:?}");
    servers.assert_nothing_left();
}

fn contest(servers: &Servers, seconds: u64) -> Outcome {
    let (seed, run_ms) = (seed(), seconds * 1_000);
    let flags = |process: u32| {
        format!("--process {process} --tasks 16 --keys 16 --run-ms {run_ms} --hold-us 0..2000 --seed {seed}")
    };
    let entrants: Vec<_> = (0..4).map(|process| Entrant::new(servers.url(), &flags(process))).collect();
    let mut lineup = Lineup::ready(&entrants);
    lineup.go();
    lineup.outcome(Duration::from_secs(seconds))
}

/// Of so many grants, each key has a sixteenth, and every sixth of them goes to another process.
fn assert_turns(outcome: &Outcome, grants: usize) {
    assert!(outcome.windows.len() >= grants, "{} grants", outcome.windows.len());
    let changes = process_changes(&outcome.windows);
    assert_eq!(changes.len(), 16);
    assert!(changes.values().all(|count| *count >= grants / 100), "{changes:?}");
}

/// On other topologies than the first.
fn in_short() -> u64 {
    if length::is_long() { FULL_S } else { 5 }
}

const FULL_S: u64 = 20;
