//! What `fleet` says to input that it cannot use: exit code 2, what is wrong, and never a secret.

use leasehold_tests::harness::{port::free_port, redis_server::RedisServer};

use crate::{
    fleet::FLEET,
    program::{Ended, run},
};

fn refused(arguments: &[&str]) -> Ended {
    let ended = run(FLEET, arguments).expect_code(2);
    assert_eq!(ended.stdout, "", "an error belongs to stderr");
    for text in [&ended.stderr, &ended.stdout] {
        assert!(!text.contains(SECRET), "{text}");
    }
    ended
}

#[test]
fn wrong_options_are_named_with_their_value() {
    for (arguments, said) in [
        (&["--leases", "many"][..], r#"--leases is "many""#),
        (&["--ttl-ms", "10"], "from 1000"),
        (&["--fast"], "--fast is not known"),
        (&["--kind", "fast"], r#"--kind is "fast": give one of exclusive, "#),
        (&["--permits", "0"], "from 1"),
        (&["--seconds"], "--seconds needs a value"),
        (&["redis://:hunter2@127.0.0.1"], "--url"),
        (&["--url", "http://:hunter2@127.0.0.1"], "redis://"),
        (&["--url", "redis://:hunter2@127.0.0.1?x=1"], "leave the query out"),
        (&["--url", "redis://:hunter2@h", "--config", "f"], "--config is one place too many"),
        (&["--log", "/nowhere/fleet.jsonl"], "--log /nowhere/fleet.jsonl"),
        (&["--config", "f", "--url", "redis://:hunter2@h"], "--url is one place too many"),
    ] {
        let ended = refused(arguments);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn nobody_listening_is_told_with_the_address() {
    let port = free_port().expect("a port");
    let ended = refused(&["--url", &format!("redis://:{SECRET}@127.0.0.1:{port}")]);
    assert!(ended.stderr.contains(&format!("127.0.0.1:{port}")), "{}", ended.stderr);
}

#[test]
fn a_wrong_password_is_told_at_once_and_not_shown() {
    let server = RedisServer::builder().password("hunter2-right").start().expect("a server");
    let ended = refused(&["--url", &format!("redis://:{SECRET}@127.0.0.1:{}", server.port())]);
    assert!(ended.stderr.contains("password"), "{}", ended.stderr);
}

#[test]
fn a_missing_right_ends_the_run_with_the_servers_word() {
    let user = format!("app on >{SECRET} ~* &* +@all -hset");
    let server = RedisServer::builder().acl_user(&user).start().expect("a server");
    let url = format!("redis://app:{SECRET}@127.0.0.1:{}", server.port());
    let ended = run(FLEET, &["--url", &url, "--leases", "5"]).expect_code(2);
    assert!(ended.stderr.contains("refused") && !ended.stderr.contains(SECRET), "{}", ended.stderr);
}

#[test]
fn help_lists_every_option() {
    let ended = run(FLEET, &["--help"]).expect_code(0);
    for option in [
        "--url",
        "--config",
        "--leases",
        "--contenders",
        "--keys",
        "--kind",
        "--permits",
        "--hold-ms",
        "--ttl-ms",
        "--seconds",
        "--json",
        "--log",
    ] {
        assert!(ended.stdout.contains(option), "{option}");
    }
}

const SECRET: &str = "hunter2";
