//! What the users of the README may do.

use leasehold_tests::harness::redis_server::RedisServer;

use crate::program::{Program, leasehold, until_held};

const CLIENT: &str = "app on >hunter2 resetchannels ~job* &redisson_lock__channel:* +eval +evalsha +time +hexists \
                      +pttl +hset +pexpire +pexpireat +hdel +publish +subscribe +unsubscribe +ping +info +role +client|setname \
                      +client|id +hgetall +hlen +del";
const OPERATOR: &str = "app on >hunter2 ~* resetchannels &redisson_* +@read +eval +evalsha +time +ping +role +info \
                        +client|list +client|setname +client|id +del +publish +spublish";

fn server_for(user: &str) -> (RedisServer, String) {
    let server = RedisServer::builder().acl_user(user).start().expect("a server");
    let url = format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    (server, url)
}

#[test]
fn the_rights_of_a_client_are_enough_for_locks() {
    let (_server, url) = server_for(CLIENT);
    let itself = env!("CARGO_BIN_EXE_leasehold");
    let ended = leasehold(&url, &["run", "job", "--", itself, "inspect", "job", "--json"]).expect_code(0);
    assert_eq!(ended.document()["mode"], "exclusive");
    let _holder = Program::start(&url, &["run", "job", "--", "sleep", "600"]);
    until_held(&url, "job");
    leasehold(&url, &["release", "job", "--force", "--yes"]).expect_code(0);
    assert!(leasehold(&url, &["run", "other", "--", "true"]).expect_code(77).stderr.contains("NOPERM"));
    assert!(leasehold(&url, &["list"]).expect_code(77).stderr.contains("scan"));
}

#[test]
fn a_user_who_may_not_look_at_a_lock_waits_for_it_all_the_same() {
    let (server, url) = server_for(&CLIENT.replace(" +hgetall", ""));
    let _holder = Program::start(&server.url(), &["run", "job", "--", "sleep", "600"]);
    until_held(&server.url(), "job");
    let waited = leasehold(&url, &["run", "job", "--wait", "2s", "--", "true"]).expect_code(1);
    assert_eq!(waited.stderr.lines().count(), 1, "{waited:?}");
    assert!(waited.stderr.contains("was held; who holds it is not known: "), "{waited:?}");
}

#[test]
fn an_operator_sees_everything_and_releases_but_holds_nothing() {
    let (server, url) = server_for(OPERATOR);
    let _holder = Program::start(&server.url(), &["run", "job", "--", "sleep", "600"]);
    until_held(&server.url(), "job");
    for command in [&["inspect", "job"][..], &["who", "job"], &["list"], &["doctor"]] {
        let ended = leasehold(&url, command);
        assert!(command == ["doctor"] || ended.code == Some(0), "{command:?}: {ended:?}");
    }
    let owners = leasehold(&url, &["who", "job", "--json"]).expect_code(0).document();
    assert_eq!(owners["owners"][0]["connections"].as_array().map(Vec::len), Some(3));
    leasehold(&url, &["run", "mine", "--", "true"]).expect_code(77);
    leasehold(&url, &["release", "job", "--force", "--yes"]).expect_code(0);
}
