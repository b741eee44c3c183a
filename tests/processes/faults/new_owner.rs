//! An ask that is repeated with another owner: the answer to the first is lost, the first has the lock, and nobody
//! stands behind it.

use std::collections::HashSet;
use std::time::Duration;

use leasehold_tests::harness::checkers::{Stray, held_by_nobody};
use leasehold_tests::harness::proxy::{Fault, Proxy, Rule};
use leasehold_tests::harness::redis_server::RedisServer;
use leasehold_tests::harness::server_table::locks;

use super::{Health, acquires, prepared_server};
use crate::lineup::Lineup;
use crate::servers::Servers;

#[test]
fn s5_a_lock_that_nobody_holds_is_seen_if_an_ask_is_repeated_with_another_owner() {
    let server = run(&Health::faulty("new_owner"));
    let locks = locks(&mut server.client().expect("a connection")).expect("the locks");
    let strays = held_by_nobody(&locks, &HashSet::new());
    assert!(matches!(strays[..], [Stray::NobodyHolds { .. }]), "{strays:?}");
}

#[test]
fn s5_the_same_lost_answer_leaves_nothing_if_the_owner_stays_the_same() {
    Servers::Single(Box::new(run(&Health::Healthy))).assert_nothing_left();
}

/// The server, after all of its clients have ended.
fn run(health: &Health) -> RedisServer {
    let server = prepared_server();
    let proxy = Proxy::start(server.port()).expect("a proxy");
    let mut lineup = Lineup::ready(&[health.entrant(proxy.url(), &format!("--run-ms {RUN_MS}"))]);
    let lost = proxy.rule(Rule::once(acquires(), Fault::CutAfter));
    lineup.go();
    let outcome = lineup.outcome(Duration::from_millis(RUN_MS));
    assert_eq!(lost.fired(), 1);
    assert_eq!(outcome.sum("failed"), 0, "{:?}", outcome.tallies);
    server
}

const RUN_MS: u64 = 1_000;
