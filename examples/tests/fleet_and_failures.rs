//! `fleet` on a server that is killed: every lease of it is lost, and that is told.

use leasehold_tests::harness::redis_server::RedisServer;

use crate::{
    fleet::FLEET,
    program::{Ended, Program},
};

/// Kills the server under 50 leases, starts it again when the first loss is told, and interrupts when all are held again.
fn fleet_over_a_killed_server(more: &[&str]) -> Ended {
    let mut server = RedisServer::start().expect("a server");
    let url = server.url();
    let small = [
        "--seconds",
        "600",
        "--leases",
        "50",
        "--contenders",
        "4",
        "--keys",
        "2",
        "--ttl-ms",
        "2000",
        "--json",
    ];
    let arguments: Vec<&str> = small.iter().chain(&["--url", &url]).chain(more).copied().collect();
    let mut fleet = Program::start(FLEET, &arguments);
    fleet.until_stderr(|line| line.contains("  held 5"));
    server.kill().expect("killed");
    fleet.until_stderr(|line| line.contains("s  lost "));
    server.restart().expect("started again");
    fleet.until_stderr(|line| line.contains("  held 5"));
    fleet.interrupt();
    fleet.end()
}

#[test]
fn losses_are_told_with_time_and_reason_and_allowed_on_request() {
    let ended = fleet_over_a_killed_server(&["--allow-loss"]).expect_code(0);
    let json = ended.json();
    assert!(json["lost"].as_u64().is_some_and(|lost| lost >= 50), "{json}");
    assert_eq!(json["overlaps"], 0, "{json}");
    assert!(json["acquires_failed"].is_u64(), "{json}");
    let told = ended.stderr.lines().find(|line| line.contains("s  lost ")).expect("waited for above");
    assert!(told.trim_start().starts_with(|first: char| first.is_ascii_digit()), "{told}");
    assert!(told.contains("no renewal was confirmed before the deadline"), "{told}");
}

#[test]
fn losses_are_a_failure_otherwise() {
    let ended = fleet_over_a_killed_server(&[]).expect_code(1);
    assert!(ended.stdout.contains("leases were lost"), "{}", ended.stdout);
    assert!(ended.json()["lost"].as_u64().is_some_and(|lost| lost >= 50), "{}", ended.json());
}
