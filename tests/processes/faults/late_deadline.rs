//! A deadline that counts from the answer: a process is stopped after the server has granted it the lock and before
//! it hears so. When it goes on, the lock is long somebody else's.

use std::time::Duration;

use leasehold_tests::harness::checkers::{overlaps, token_order};
use leasehold_tests::harness::proxy::{Fault, Proxy, Rule};
use leasehold_tests::harness::recorder::Window;

use super::{Health, SOON, acquires, prepared_server};
use crate::lineup::{Lineup, Outcome};

#[test]
fn s1_s6_windows_that_overlap_and_tokens_that_fall_are_seen_if_a_deadline_counts_from_a_late_answer() {
    let faulty = Health::faulty("late_deadline");
    let seen = (0..ATTEMPTS).map(|_| run(&faulty).windows).find(|windows| has_first(windows));
    let windows = seen.expect("an attempt in which the stopped process hears of its grant");
    assert!(!overlaps(&windows).violations.is_empty(), "no overlap: {windows:#?}");
    assert!(!token_order(&windows).is_empty(), "no token out of order: {windows:#?}");
}

#[test]
fn s1_s7_the_same_late_answer_harms_nobody_if_the_deadline_counts_from_the_send() {
    let outcome = run(&Health::Healthy);
    outcome.assert_exclusive();
    assert!(outcome.windows.len() >= 2, "somebody else has had turns: {:#?}", outcome.windows);
}

/// Whether the stopped process believed that it had the first lease of all.
fn has_first(windows: &[Window]) -> bool {
    windows.iter().min_by_key(|window| window.token).is_some_and(|window| window.process == STOPPED)
}

fn run(health: &Health) -> Outcome {
    let server = prepared_server();
    let proxy = Proxy::start(server.port()).expect("a proxy");
    let stopped = health.entrant(proxy.url(), &format!("--process {STOPPED} {FLAGS}"));
    let other = health.entrant(server.url(), &format!("--process 1 {FLAGS}"));
    let mut lineup = Lineup::ready(&[stopped, other]);
    let granted = proxy.rule(Rule::once(acquires(), Fault::DelayReply(TTL / 4)));
    lineup.talker(0).say("go").expect("it listens");
    assert!(granted.fired_within(SOON));
    lineup.talker(0).stop().expect("it runs");
    lineup.talker(1).say("go").expect("it listens");
    lineup.talker(1).line(SOON, |line| line.starts_with("granted")).expect("granted when the ttl is over");
    lineup.talker(0).cont().expect("it is there");
    lineup.outcome(Duration::from_millis(RUN_MS))
}

const STOPPED: u32 = 0;
/// If the machine is slow to stop the process, its connection is given up before, and the answer is nobody's.
const ATTEMPTS: usize = 4;
const TTL: Duration = Duration::from_secs(4);
/// Far longer than the stop, which waits for another process to be granted the lock.
const RUN_MS: u64 = 12_000;
const FLAGS: &str = "--ttl-ms 4000 --no-renewal --stay --announce --run-ms 12000";
