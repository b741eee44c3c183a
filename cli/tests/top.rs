//! `leasehold top`.

use leasehold_tests::harness::{polling::holds_within, redis_server::RedisServer};
use rustix::process::Signal;

use crate::program::{Ended, PATIENCE, Program, cluster, leasehold, server, until_held};

fn waiters(url: &str, name: &str, count: usize) -> Vec<Program> {
    (0..count).map(|_| Program::start(url, &["run", name, "--wait", "60s", "--", "true"])).collect()
}

fn once(url: &str, pattern: &str) -> Ended {
    leasehold(url, &["top", pattern, "--once", "--json"]).expect_code(0)
}

fn until(url: &str, name: &str, field: &str, count: u64) {
    let is_seen = || once(url, name).document()["locks"][0][field] == count;
    assert!(holds_within(PATIENCE, is_seen), "{field} of {name}: {}", once(url, name).stdout);
}

/// Waits until as many processes listen.
fn until_listeners(url: &str, name: &str, count: u64) {
    until(url, name, "listeners", count);
}

#[test]
fn the_lock_that_most_processes_wait_for_comes_first() {
    for url in [server(), cluster()] {
        let names = ["rank:busy", "rank:calm", "rank:idle"];
        let _holders = names.map(|name| Program::start(url, &["run", name, "--", "sleep", "600"]));
        names.iter().for_each(|name| until_held(url, name));
        let _waiters = (waiters(url, "rank:busy", 3), waiters(url, "rank:calm", 1));
        until_listeners(url, "rank:busy", 3);
        until_listeners(url, "rank:calm", 1);
        let seen = once(url, "rank:*").document();
        let locks = seen["locks"].as_array().expect("a list");
        let shown: Vec<_> = locks.iter().map(|lock| lock["name"].as_str().expect("text")).collect();
        assert_eq!(shown, ["rank:busy", "rank:calm"], "{seen}");
        assert_eq!((&seen["held"], &seen["contended"]), (&3.into(), &2.into()), "{seen}");
        let text = leasehold(url, &["top", "rank:*", "--once", "--limit", "1"]).expect_code(0).stdout;
        assert!(text.starts_with("3 locks held, 2 with waiters\n"), "{text}");
        assert!(text.contains("\"rank:busy\"") && !text.contains("\"rank:calm\""), "{text}");
    }
}

#[test]
fn the_callers_of_a_read_write_lock_and_the_line_of_a_fair_lock_count() {
    let url = server();
    let _writer = Program::start(url, &["run", "top:rw", "--kind", "write", "--", "sleep", "600"]);
    let _fair = Program::start(url, &["run", "top:fair", "--kind", "fair", "--", "sleep", "600"]);
    until_held(url, "top:rw");
    until_held(url, "top:fair");
    let _reader = Program::start(url, &["run", "top:rw", "--kind", "read", "--wait", "60s", "--", "true"]);
    let _place = Program::start(url, &["run", "top:fair", "--kind", "fair", "--wait", "60s", "--", "true"]);
    until_listeners(url, "top:rw", 1);
    until(url, "top:fair", "in_line", 1);
}

#[test]
fn it_looks_again_until_it_is_ended_and_tells_of_a_server_that_is_gone() {
    let mut server = RedisServer::start().expect("a server");
    let top = Program::start(&server.url(), &["top", "--interval", "100ms"]);
    top.until_text("0 locks held, 0 with waiters");
    top.until_lines(6);
    server.kill().expect("killed");
    top.until_text("not known: ");
    top.signal(Signal::TERM);
    top.end();
}

#[test]
fn a_missing_right_is_named() {
    let user = "app on >hunter2 ~* &* +@all -pubsub";
    let server = RedisServer::builder().acl_user(user).start().expect("a server");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    let mut client = server.client().expect("a connection");
    client.command(&["HSET", "job", "30c9b6e8-0000-4000-8000-000000000001:63", "1"]).expect("a reply");
    let ended = leasehold(&url, &["top", "--once"]).expect_code(77);
    assert!(ended.stderr.contains("pubsub") && !ended.stderr.contains("hunter2"), "{ended:?}");
}
