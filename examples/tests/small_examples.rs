//! Each small example runs as it stands, and on a real server where it takes one.

use leasehold_tests::harness::{redis_server::RedisServer, stall::unless_stalled};

use crate::{
    config::{FileFor, SINGLE},
    program::run,
};

fn in_memory_and_on_redis(path: &str, said: &[&str]) {
    let server = RedisServer::start().expect("a server");
    let file = FileFor::ports(SINGLE, &[(6379, server.port())]);
    for arguments in [&[][..], &["--url", &server.url()], &["--config", file.path()]] {
        let ended = run(path, arguments).expect_code(0);
        for line in said {
            assert!(ended.stdout.contains(line), "{line:?} with {arguments:?} in\n{}", ended.stdout);
        }
    }
}

#[test]
fn quickstart() {
    let said = ["others get it now: false", "others get it afterwards: true"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_quickstart"), &said);
}

#[test]
fn fenced_write() {
    let said = ["held is false", "it writes without looking: Err(\"refused: "];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_fenced_write"), &said);
}

#[test]
fn fenced() {
    let said = ["the resource has seen 3 tokens, each higher than the one before", "the oldest is refused"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_fenced"), &said);
}

#[test]
fn fenced_sql() {
    let said = [
        "the first holder inserts: true",
        "it writes again: true",
        "the second holder writes: true",
        "the first holder updates late: false",
        "the first holder inserts late: false",
        "the order is paid",
    ];
    unless_stalled(|| in_memory_and_on_redis(env!("CARGO_BIN_EXE_fenced_sql"), &said)); // its ttl is 1 s
}

#[test]
fn fair() {
    let said = ["served in the order of arrival: 1 2 3 4 5", "a try is refused while others wait: true"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_fair"), &said);
}

#[test]
fn spin() {
    let said = ["4 workers have counted to 100", "asked the server"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_spin"), &said);
}

#[test]
fn leader() {
    let said =
        ["ada has retired", "ben has retired", "cleo has retired", "'s log: lost \"leader of reports\""];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_leader"), &said);
}

#[test]
fn job() {
    let said = ["goes away", "4 runs began at least 3 periods apart: true", "one more try: not due"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_job"), &said);
}

#[test]
fn transfer() {
    let said = [
        "50 transfers from acct:ada to acct:ben",
        "50 transfers from acct:ben to acct:ada",
        "balances: [100, 100]",
    ];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_transfer"), &said);
}

#[test]
fn quorum() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().expect("a server")).collect();
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let path = env!("CARGO_BIN_EXE_quorum");
    let in_memory = unless_stalled(|| run(path, &[]).expect_code(0).stdout); // its ttl is 2 s
    assert!(in_memory.contains("without one server: held by 2 of 3, 2 needed"), "{in_memory}");
    let on_redis = run(path, &urls.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0).stdout;
    for said in [in_memory, on_redis] {
        for line in
            ["acquired: held by 3 of 3", "others get it now: false", "with all of them: held by 3 of 3"]
        {
            assert!(said.contains(line), "{line:?} in\n{said}");
        }
    }
}

#[test]
fn losing_a_lease() {
    let said = [
        "Jeopardy, held: true",
        "Held, held: true",
        "lost: no renewal was confirmed before the deadline",
        "releasing: the lease was lost before it was released",
        "dropped in the middle: the server says that this lease does not hold the lock any more",
        "report, token",
    ];
    unless_stalled(|| in_memory_and_on_redis(env!("CARGO_BIN_EXE_losing_a_lease"), &said)); // its ttl is 2 s
}

#[test]
fn semaphore() {
    let said = ["runs beside 1 other", "2 permits are available afterwards", "three at once: false"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_semaphore"), &said);
}

#[test]
fn permits() {
    let said = ["runs beside 1 other", "is available again", "2 permits are available afterwards"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_permits"), &said);
}

#[test]
fn latch() {
    let said = ["it is set: true", "open at once: false", "is ready, 0 to come", "every worker is ready"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_latch"), &said);
}

#[test]
fn read_write() {
    let said = ["writing with token", "reader 2 reads, beside the others", "while this process reads: true"];
    in_memory_and_on_redis(env!("CARGO_BIN_EXE_read_write"), &said);
}

#[test]
fn a_misplaced_argument_shows_the_usage_and_no_secret() {
    let ended = run(env!("CARGO_BIN_EXE_quickstart"), &["redis://:hunter2@h"]).expect_code(2);
    assert!(ended.stderr.contains("--url") && !ended.stderr.contains("hunter2"), "{}", ended.stderr);
    let both = ["--config", SINGLE, "--url", "redis://:hunter2@h"];
    let ended = run(env!("CARGO_BIN_EXE_quickstart"), &both).expect_code(2);
    assert!(ended.stderr.contains("with one of") && !ended.stderr.contains("hunter2"), "{}", ended.stderr);
}
