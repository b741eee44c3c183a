//! Turns between processes: none starves, whether it is a process or an engine beside another.

use std::time::Duration;

use leasehold_tests::harness::checkers::{grants_per_process, process_changes};
use leasehold_tests::harness::seed::seed;
use leasehold_tests::harness::stall::unless_stalled;

use crate::lineup::{Entrant, Lineup, Outcome};
use crate::servers::Servers;

#[test]
fn of_4_processes_with_16_tasks_each_on_one_key_on_redis_each_gets_at_least_a_tenth_of_the_grants() {
    unless_stalled(|| {
        let outcome = contest("4 processes, one key", &Servers::single(), &[1, 1, 1, 1], "0..1000");
        assert_shares(&outcome, 4, 10);
    });
}

/// Its notices are sharded ones.
#[test]
fn of_4_processes_with_16_tasks_each_on_one_key_on_redis_cluster_each_gets_at_least_a_tenth_of_the_grants() {
    unless_stalled(|| {
        let outcome =
            contest("4 processes, one key on a cluster", &Servers::cluster(), &[1, 1, 1, 1], "0..1000");
        assert_shares(&outcome, 4, 10);
    });
}

/// Who holds for no time at all is a round trip ahead of everybody else at each release.
#[test]
fn of_4_processes_that_release_at_once_each_gets_at_least_a_tenth_of_the_grants_on_redis() {
    unless_stalled(|| {
        let outcome = contest("4 processes, no hold", &Servers::single(), &[1, 1, 1, 1], "0..0");
        assert_shares(&outcome, 4, 10);
    });
}

#[test]
fn s1_s6_two_engines_in_one_process_and_two_processes_exclude_each_other_and_take_turns_alike_on_redis() {
    unless_stalled(|| {
        for (name, engines) in [("two engines", &[2][..]), ("two processes", &[1, 1])] {
            let outcome = contest(name, &Servers::single(), engines, "0..1000");
            assert_shares(&outcome, 2, 4);
        }
    });
}

/// Runs processes with so many engines each on one key.
fn contest(name: &str, servers: &Servers, engines: &[u32], hold: &str) -> Outcome {
    let seed = seed();
    let mut process = 0;
    let mut entrants = Vec::new();
    for engines in engines {
        let flags = format!(
            "--process {process} --engines {engines} --tasks 16 --run-ms {RUN_MS} --hold-us {hold} --seed {seed}"
        );
        entrants.push(Entrant::new(servers.url(), &flags));
        process += engines;
    }
    let mut lineup = Lineup::ready(&entrants);
    lineup.go();
    let outcome = lineup.outcome(Duration::from_millis(RUN_MS));
    outcome.print(name);
    outcome.assert_healthy();
    servers.assert_nothing_left();
    outcome
}

/// Each of so many has at least one `part`th of the grants, and the lock has gone from one to another many times.
fn assert_shares(outcome: &Outcome, processes: usize, part: usize) {
    let (all, shares) = (outcome.windows.len(), grants_per_process(&outcome.windows));
    assert_eq!(shares.len(), processes, "{shares:?}");
    assert!(shares.values().all(|grants| grants * part >= all), "{shares:?}");
    let changes = process_changes(&outcome.windows);
    assert!(changes.values().all(|count| *count >= CHANGES_MIN), "{changes:?}");
}

const RUN_MS: u64 = 5_000;
/// A process that stands back after 32 grants in a row changes a lock that is held for 1 ms more often than that.
const CHANGES_MIN: usize = 20;
