//! `leasehold watch`.

use leasehold_tests::harness::redis_server::RedisServer;
use rustix::process::Signal;

use crate::program::{Program, client, leasehold, server, until_held};

#[test]
fn each_change_is_printed_once() {
    let watch = Program::start(server(), &["watch", "watch:changes", "--interval", "100ms", "--json"]);
    watch.until_text("\"mode\":\"free\"");
    let holder = Program::start(server(), &["run", "watch:changes", "--ttl", "3s", "--", "sleep", "600"]);
    watch.until_text("\"mode\":\"exclusive\"");
    std::thread::sleep(std::time::Duration::from_secs(2)); // a renewal is no change
    holder.signal(Signal::TERM);
    holder.end().expect_code(143);
    watch.until_lines(3);
    watch.signal(Signal::INT);
    let ended = watch.end();
    let modes: Vec<_> = ended.documents().iter().map(|seen| seen["mode"].clone()).collect();
    assert_eq!(modes, ["free", "exclusive", "free"]);
}

#[test]
fn it_ends_when_the_lock_is_free_if_asked_to() {
    let holder = Program::start(server(), &["run", "watch:until", "--", "sleep", "600"]);
    until_held(server(), "watch:until");
    leasehold(server(), &["watch", "watch:until", "--until", "held"]).expect_code(0);
    let watch = Program::start(server(), &["watch", "watch:until", "--until", "free"]);
    watch.until_text("held by");
    holder.signal(Signal::TERM);
    let shown = watch.end().expect_code(0).stdout;
    assert!(shown.starts_with("+0.") && shown.ends_with("\"watch:until\": free\n"), "{shown}");
}

#[test]
fn what_is_no_lock_is_not_watched() {
    client().command(&["SET", "watch:text", "abc"]).expect("a reply");
    client().command(&["HSET", "watch:hash", "f", "v"]).expect("a reply");
    for name in ["watch:text", "watch:hash"] {
        let ended = leasehold(server(), &["watch", name, "--until", "free"]).expect_code(65);
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_server_that_goes_away_and_comes_back_is_told() {
    let mut server = RedisServer::start().expect("a server");
    let watch = Program::start(&server.url(), &["watch", "job"]);
    watch.until_text("free");
    server.kill().expect("killed");
    watch.until_text("not known: ");
    server.restart().expect("it starts");
    watch.until_lines(3);
    watch.signal(Signal::TERM);
    assert_eq!(watch.end().stdout.matches("free").count(), 2);
}
