//! A deadline that counts from the answer: a process is stopped after the server has granted it the lock and before
//! it hears so. When it goes on, the lock is long somebody else's.

use std::time::Duration;

use leasehold_tests::harness::checkers::{overlaps, token_order};
use leasehold_tests::harness::polling::holds_within;
use leasehold_tests::harness::proxy::{Direction, Proxy};

use super::{Health, SOON, prepared_server};
use crate::lineup::{Lineup, Outcome};

#[test]
fn s1_s6_windows_that_overlap_and_tokens_that_fall_are_seen_if_a_deadline_counts_from_a_late_answer() {
    let outcome = run(&Health::faulty("late_deadline"));
    let (violations, faults) = (overlaps(&outcome.windows).violations, token_order(&outcome.windows));
    assert!(!violations.is_empty(), "no overlap: {:#?}", outcome.windows);
    assert!(!faults.is_empty(), "no token out of order: {:#?}", outcome.windows);
}

#[test]
fn s1_s7_the_same_late_answer_harms_nobody_if_the_deadline_counts_from_the_send() {
    let outcome = run(&Health::Healthy);
    outcome.assert_exclusive();
    assert!(outcome.windows.len() >= 2, "somebody else has had turns: {:#?}", outcome.windows);
}

fn run(health: &Health) -> Outcome {
    let server = prepared_server();
    let proxy = Proxy::start(server.port()).expect("a proxy");
    let stopped = health.entrant(proxy.url(), &format!("--process 0 {FLAGS}"));
    let other = health.entrant(server.url(), &format!("--process 1 {FLAGS}"));
    let mut lineup = Lineup::ready(&[stopped, other]);
    proxy.block(Direction::ToClient, true);
    lineup.talker(0).say("go").expect("it listens");
    let mut client = server.client().expect("a connection");
    let is_granted =
        || client.command(&["EXISTS", "contended-0"]).is_ok_and(|count| count.integer() == Some(1));
    assert!(holds_within(SOON, is_granted));
    lineup.talker(0).stop().expect("it runs");
    proxy.block(Direction::ToClient, false);
    lineup.talker(1).say("go").expect("it listens");
    lineup.talker(1).line(SOON, |line| line.starts_with("granted")).expect("granted when the ttl is over");
    lineup.talker(0).cont().expect("it is there");
    lineup.outcome(Duration::from_millis(RUN_MS))
}

/// Far longer than the stop, which waits for another process to be granted the lock.
const RUN_MS: u64 = 12_000;
/// The ttl sets how soon a request without an answer is given up (a sixth of it): the stop must be sooner, or the late
/// answer is nobody's.
const FLAGS: &str = "--ttl-ms 4000 --no-renewal --stay --announce --run-ms 12000";
