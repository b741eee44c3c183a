//! The main run: many tasks, several processes, some locks, one server.

use std::time::Duration;

use leasehold_tests::harness::checkers::process_changes;
use leasehold_tests::harness::redis_server::RedisServer;
use leasehold_tests::harness::seed::seed;

use crate::lineup::{Entrant, Lineup, assert_nothing_left};

#[test]
fn s1_s6_64_tasks_in_4_processes_on_16_keys_for_20_s_on_redis_exclude_each_other_and_take_turns() {
    let (server, seed) = (RedisServer::start().expect("a server"), seed());
    let flags = |process: u32| {
        format!("--process {process} --tasks 16 --keys 16 --run-ms {RUN_MS} --hold-us 0..2000 --seed {seed}")
    };
    let entrants: Vec<_> = (0..4).map(|process| Entrant::new(server.url(), &flags(process))).collect();
    let mut lineup = Lineup::ready(&entrants);
    lineup.go();
    let outcome = lineup.outcome(Duration::from_millis(RUN_MS));
    outcome.print("exclusion");
    outcome.assert_healthy();
    assert!(outcome.windows.len() >= 20_000, "{} grants", outcome.windows.len());
    let changes = process_changes(&outcome.windows);
    assert_eq!(changes.len(), 16);
    assert!(changes.values().all(|count| *count >= 200), "{changes:?}");
    assert_nothing_left(&server);
}

const RUN_MS: u64 = 20_000;
