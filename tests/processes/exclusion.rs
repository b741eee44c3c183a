//! The main run: many tasks, several processes, some locks, one server.

use std::collections::HashSet;
use std::time::Duration;

use leasehold_tests::harness::checkers::{held_by_nobody, process_changes};
use leasehold_tests::harness::redis_server::RedisServer;
use leasehold_tests::harness::seed::seed;
use leasehold_tests::harness::server_table::{locks, settles_empty};

use crate::lineup::{Entrant, Lineup};

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

/// S5, L6: nothing is held by nobody, and soon nothing is left at all.
fn assert_nothing_left(server: &RedisServer) {
    let locks = locks(&mut server.client().expect("a connection")).expect("the locks");
    assert_eq!(held_by_nobody(&locks, &HashSet::new()), []);
    assert!(settles_empty(server.port(), Duration::from_secs(10)));
}

const RUN_MS: u64 = 20_000;
