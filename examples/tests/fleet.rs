//! `fleet` on servers that are well.

use leasehold_tests::harness::{
    polling::holds_within, redis_server::RedisServer, resp::Value as Reply, server_table::leftovers,
};
use serde_json::Value;
use std::time::Duration;

use crate::program::{Program, run};

pub(crate) const FLEET: &str = env!("CARGO_BIN_EXE_fleet");

/// What the last line has at least.
const FIELDS: [&str; 10] = [
    "held_max",
    "granted",
    "released",
    "lost",
    "renewals",
    "renewals_failed",
    "wait_ms_p50",
    "wait_ms_p99",
    "overlaps",
    "seconds",
];

pub(crate) fn check_numbers(json: &Value) {
    for field in FIELDS {
        assert!(json[field].is_number(), "{field} in {json}");
    }
}

pub(crate) fn count(json: &Value, field: &str) -> u64 {
    json[field].as_u64().unwrap_or_else(|| panic!("{field} is a count in {json}"))
}

/// Every grant came to its end by a confirmed release, and nothing else happened.
pub(crate) fn check_a_good_run(json: &Value, leases: u64) {
    check_numbers(json);
    for field in ["lost", "overlaps", "renewals_failed", "releases_unanswered", "releases_unconfirmed"] {
        assert_eq!(count(json, field), 0, "{field} in {json}");
    }
    assert_eq!(count(json, "held_max"), leases);
    assert_eq!(count(json, "granted"), count(json, "released"));
    assert_eq!(count(json, "granted"), leases + count(json, "contender_grants"));
    assert!(count(json, "contender_grants") > 0, "{json}");
}

fn nothing_is_left(server: &RedisServer) {
    let nothing = || leftovers(server.port()).is_ok_and(|left| left.is_empty());
    assert!(holds_within(Duration::from_secs(10), nothing), "{:?}", leftovers(server.port()));
}

#[test]
fn a_small_fleet_in_memory_ends_well_and_says_so() {
    // A ttl of 3 s is renewed after 1 s: at least once for each lease.
    let ended =
        run(FLEET, &["--seconds", "2", "--leases", "200", "--ttl-ms", "3000", "--json"]).expect_code(0);
    check_a_good_run(&ended.json(), 200);
    assert!(count(&ended.json(), "renewals") >= 200, "{}", ended.json());
    assert!(
        ended.stderr.lines().any(|line| line.contains("held 2") && line.contains("grants/s")),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_small_fleet_on_a_real_server_ends_well_and_leaves_nothing() {
    let server = RedisServer::start().expect("a server");
    let arguments =
        ["--seconds", "2", "--leases", "200", "--ttl-ms", "3000", "--json", "--url", &server.url()];
    let ended = run(FLEET, &arguments).expect_code(0);
    check_a_good_run(&ended.json(), 200);
    assert!(count(&ended.json(), "renewals") >= 200, "{}", ended.json());
    nothing_is_left(&server);
}

#[test]
fn several_fleets_on_one_server_contend_and_end_well() {
    let server = RedisServer::start().expect("a server");
    let url = server.url();
    let arguments =
        ["--seconds", "2", "--leases", "100", "--contenders", "16", "--keys", "8", "--json", "--url", &url];
    let fleets: Vec<_> = (0..3).map(|_| Program::start(FLEET, &arguments)).collect();
    for fleet in fleets {
        let ended = fleet.end().expect_code(0);
        check_a_good_run(&ended.json(), 100);
    }
    nothing_is_left(&server);
}

#[test]
fn ctrl_c_releases_everything_and_says_so() {
    let server = RedisServer::start().expect("a server");
    let arguments = ["--seconds", "600", "--leases", "300", "--json", "--url", &server.url()];
    let mut fleet = Program::start(FLEET, &arguments);
    fleet.until_stderr(|line| line.contains("held 3"));
    let keys = server.client().and_then(|mut client| client.command(&["DBSIZE"])).expect("an answer");
    assert!(matches!(keys, Reply::Integer(300..)), "{keys:?}");
    fleet.interrupt();
    let ended = fleet.end().expect_code(0);
    assert!(ended.stderr.contains("Ctrl-C: releasing 3"), "{}", ended.stderr);
    assert!(ended.stderr.contains("released 3"), "{}", ended.stderr);
    assert_eq!(ended.json()["interrupted"], true);
    check_a_good_run(&ended.json(), 300);
    nothing_is_left(&server);
}

#[test]
fn no_contenders_and_no_leases_are_runs_too() {
    let none = ["--contenders", "0", "--leases", "10", "--seconds", "1", "--json"];
    let json = run(FLEET, &none).expect_code(0).json();
    assert_eq!((count(&json, "granted"), &json["wait_ms_p50"]), (10, &Value::Null));
    let none = ["--leases", "0", "--seconds", "1", "--hold-ms", "0", "--json"];
    check_a_good_run(&run(FLEET, &none).expect_code(0).json(), 0);
}
