//! `fleet --kind`: each kind ends well, in memory and on a server, and its judge sees what is wrong.

use std::time::Duration;

use leasehold_tests::harness::{
    polling::found_within,
    raw_client::RawClient,
    redis_server::RedisServer,
    resp::Value as Reply,
    server_table::{Leftover, leftovers, settles_empty},
};

use crate::{
    fleet::{FLEET, check_a_good_run, check_numbers, count},
    program::{Ended, Program, run},
};

const LEASES: u64 = 100;
const SMALL: [&str; 7] = ["--seconds", "2", "--leases", "100", "--ttl-ms", "3000", "--json"];

fn of_kind<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], &["--kind", kind], more].concat()
}

/// Grants and releases are those of the leases and of the contenders.
fn check_a_run_of_locks(kind: &str, more: &[&str]) {
    let ended = run(FLEET, &of_kind(kind, more)).expect_code(0);
    assert_eq!(ended.json()["kind"], kind);
    check_a_good_run(&ended.json(), LEASES);
    assert!(count(&ended.json(), "renewals") >= LEASES, "{}", ended.json());
}

fn check_a_run_of_latches(more: &[&str]) {
    let json = run(FLEET, &of_kind("latch", more)).expect_code(0).json();
    check_numbers(&json);
    assert_eq!((count(&json, "granted"), count(&json, "released")), (LEASES, LEASES), "{json}");
    assert!(count(&json, "contender_grants") >= 64, "at least one round of all: {json}");
}

fn with_server(check: impl Fn(&RedisServer, &[&str])) {
    let server = RedisServer::start().expect("a server");
    check(&server, &["--url", &server.url()]);
    assert!(settles_empty_but_counters(&server), "{:?}", leftovers(server.port()));
}

/// Semaphores and permits stay, and what the server remembers of their operations ends with its ttl.
fn settles_empty_but_counters(server: &RedisServer) -> bool {
    let is_of_a_lock = |left: &Leftover| match left {
        Leftover::Key { name, .. } => {
            !["leasehold_op", "fleet:semaphore:", "fleet:permits:"].iter().any(|part| name.contains(part))
        }
        Leftover::Channel(_) => true,
    };
    let nothing = || {
        let left = leftovers(server.port()).ok()?;
        (!left.iter().any(is_of_a_lock)).then_some(())
    };
    found_within(Duration::from_secs(10), nothing).is_some()
}

#[test]
fn exclusive_locks_in_memory_are_judged_by_default() {
    let ended = run(FLEET, &SMALL).expect_code(0);
    assert_eq!(ended.json()["kind"], "exclusive");
}

#[test]
fn spin_locks_in_memory_end_well() {
    check_a_run_of_locks("spin", &[]);
}

#[test]
fn fenced_locks_in_memory_end_well() {
    check_a_run_of_locks("fenced", &[]);
}

#[test]
fn fair_locks_in_memory_end_well() {
    check_a_run_of_locks("fair", &[]);
}

#[test]
fn permits_in_memory_end_well() {
    check_a_run_of_locks("permits", &["--permits", "2"]);
}

#[test]
fn readers_and_writers_in_memory_end_well() {
    check_a_run_of_locks("read-write", &[]);
}

#[test]
fn semaphores_in_memory_end_well() {
    check_a_run_of_locks("semaphore", &["--permits", "2"]);
}

#[test]
fn latches_in_memory_end_well() {
    check_a_run_of_latches(&[]);
}

#[test]
fn every_kind_of_lock_ends_well_on_a_server_and_leaves_nothing() {
    for kind in ["spin", "fenced", "fair", "read-write"] {
        let server = RedisServer::start().expect("a server");
        check_a_run_of_locks(kind, &["--url", &server.url()]);
        let patience = Duration::from_secs(10);
        assert!(settles_empty(server.port(), patience), "{:?}", leftovers(server.port()));
    }
}

#[test]
fn semaphores_permits_and_latches_end_well_on_a_server() {
    with_server(|_, url| check_a_run_of_locks("permits", url));
    with_server(|_, url| check_a_run_of_locks("semaphore", url));
    with_server(|_, url| check_a_run_of_latches(url));
}

#[test]
fn several_fleets_share_semaphores_and_the_last_finds_all_permits() {
    check_three_fleets("semaphore", &["--keys", "4"]);
}

#[test]
fn several_fleets_share_permits_and_each_finds_their_sum() {
    check_three_fleets("permits", &["--keys", "4"]);
}

#[test]
fn several_fleets_share_a_fair_lock() {
    check_three_fleets("fair", &["--keys", "2", "--contenders", "12"]);
}

fn check_three_fleets(kind: &str, more: &[&str]) {
    with_server(|_, url| {
        let arguments = of_kind(kind, &[url, more].concat());
        let fleets: Vec<_> = (0..3).map(|_| Program::start(FLEET, &arguments)).collect();
        for fleet in fleets {
            check_a_good_run(&fleet.end().expect_code(0).json(), LEASES);
        }
    });
}

#[test]
fn several_fleets_share_a_read_write_lock() {
    check_three_fleets("read-write", &["--keys", "2", "--contenders", "12"]);
}

/// Runs a fleet with one key, and lets a stranger change something on the server once this was said.
fn disturbed(kind: &str, said: &str, disturb: impl FnOnce(&mut RawClient)) -> Ended {
    let server = RedisServer::start().expect("a server");
    let few = ["--seconds", "6", "--leases", "0", "--contenders", "8", "--keys", "1", "--hold-ms", "2000"];
    let url = server.url();
    let arguments = [&few[..], &["--json", "--kind", kind, "--url", &url]].concat();
    let mut fleet = Program::start(FLEET, &arguments);
    fleet.until_stderr(|line| line.contains(said));
    disturb(&mut server.client().expect("a client"));
    fleet.end()
}

#[test]
fn permits_from_elsewhere_are_found() {
    let add = |client: &mut RawClient| {
        let answer = client.command(&["INCRBY", "fleet:semaphore:4:0", "3"]).expect("an answer");
        assert!(matches!(answer, Reply::Integer(_)), "{answer:?}");
    };
    let ended = disturbed("semaphore", "grants/s", add).expect_code(1);
    for fault in ["more permits were taken than there are", "the permits of a semaphore were not all there"] {
        assert!(ended.stdout.contains(&format!("NOT WELL: {fault}")), "{fault}: {}", ended.stdout);
    }
}

#[test]
fn permits_that_expire_and_come_from_elsewhere_are_found() {
    let add = |client: &mut RawClient| {
        let answer = client.command(&["INCRBY", "fleet:permits:4:0", "3"]).expect("an answer");
        assert!(matches!(answer, Reply::Integer(_)), "{answer:?}");
    };
    let ended = disturbed("permits", "grants/s", add).expect_code(1);
    for fault in ["more permits were held than there are", "permits were missing, or there were too many"] {
        assert!(ended.stdout.contains(&format!("NOT WELL: {fault}")), "{fault}: {}", ended.stdout);
    }
}

#[test]
fn a_latch_that_opens_too_early_is_found() {
    let delete = |client: &mut RawClient| {
        let found = || {
            let latches = client.command(&["KEYS", "fleet:*:latch:0"]).expect("an answer").texts();
            let name = latches.first()?;
            Some(client.command(&["DEL", name]).expect("an answer"))
        };
        assert!(found_within(Duration::from_secs(5), found).is_some(), "no latch was set");
    };
    let ended = disturbed("latch", "audit:", delete).expect_code(1);
    let fault = "NOT WELL: a latch opened before every member had counted it down";
    assert!(ended.stdout.contains(fault), "{}", ended.stdout);
}
