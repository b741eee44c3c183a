//! A release that does not look whose lock it is: it is held back on the way until somebody else has the lock, and takes
//! it away from under that one.

use std::time::Duration;

use leasehold_tests::harness::checkers::overlaps;
use leasehold_tests::harness::polling::holds_within;
use leasehold_tests::harness::proxy::{Fault, Proxy, Rule};

use super::{Health, SOON, prepared_server, releases};
use crate::lineup::{Lineup, Outcome};

#[test]
fn s1_windows_that_overlap_are_seen_if_a_release_does_not_check_the_owner() {
    let outcome = run(&Health::faulty("blind_release"));
    assert!(!overlaps(&outcome.windows).violations.is_empty(), "no overlap: {:#?}", outcome.windows);
}

#[test]
fn s4_the_same_late_release_harms_nobody_if_it_checks_the_owner() {
    let outcome = run(&Health::Healthy);
    outcome.assert_exclusive();
    assert!(outcome.windows.len() >= 3, "each has had a turn: {:#?}", outcome.windows);
}

fn run(health: &Health) -> Outcome {
    let server = prepared_server();
    let proxy = Proxy::start(server.port()).expect("a proxy");
    let once = "--ttl-ms 1000 --no-renewal --hold-us 100000..100000 --run-ms 50 --announce";
    let first = health.entrant(proxy.url(), &format!("--process 0 {once}"));
    let stay = format!("--ttl-ms 3000 --no-renewal --stay --run-ms {RUN_MS} --announce");
    let next = |process| health.entrant(server.url(), &format!("--process {process} {stay}"));
    let mut lineup = Lineup::ready(&[first, next(1), next(2)]);
    let late = proxy.rule(Rule::once(releases(), Fault::HoldRequest));
    lineup.talker(0).say("go").expect("it listens");
    lineup.talker(0).line(SOON, |line| line.starts_with("granted")).expect("a free lock");
    lineup.talker(1).say("go").expect("it listens");
    lineup.talker(2).say("go").expect("it listens");
    let mut has_next =
        || [1, 2].iter().any(|next| lineup.talker(*next).has_said(|line| line.starts_with("granted")));
    assert!(holds_within(SOON, &mut has_next));
    assert!(late.fired() == 1 && late.deliver(SOON).is_ok());
    lineup.outcome(Duration::from_millis(RUN_MS))
}

const RUN_MS: u64 = 5_000;
