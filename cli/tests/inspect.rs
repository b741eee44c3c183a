//! `leasehold inspect`.

use rustix::process::Signal;

use crate::program::{Program, client, cluster, leasehold, server, until, until_held};

#[test]
fn a_free_lock_is_free_in_text_and_in_json() {
    for url in [server(), cluster()] {
        assert_eq!(
            leasehold(url, &["inspect", "inspect:free"]).expect_code(0).stdout,
            "\"inspect:free\": free\n"
        );
        let report = leasehold(url, &["--json", "inspect", "inspect:free"]).expect_code(0).document();
        assert_eq!((&report["mode"], report["holders"].as_array().map(Vec::len)), (&"free".into(), Some(0)));
    }
}

#[test]
fn the_holder_and_the_line_of_a_fair_lock_are_shown() {
    let command = ["run", "inspect:fair", "--kind", "fair", "--", "sleep", "600"];
    let (holder, waiter) = (Program::start(server(), &command), Program::start(server(), &command));
    until(server(), "inspect:fair", |report| report["line"].as_array().is_some_and(|line| line.len() == 1));
    let report = leasehold(server(), &["inspect", "inspect:fair", "--json"]).expect_code(0).document();
    assert_eq!((&report["kind"], &report["mode"]), (&"fair".into(), &"fair".into()));
    let left = report["holders"][0]["remaining_ms"].as_u64().expect("ms");
    assert!((1..=30_000).contains(&left), "{left}");
    let text = leasehold(server(), &["inspect", "inspect:fair"]).expect_code(0).stdout;
    assert!(text.contains("held by") && text.contains("1. in line"), "{text}");
    for program in [holder, waiter] {
        program.signal(Signal::TERM);
        program.end().expect_code(143);
    }
}

#[test]
fn a_lock_of_a_java_client_without_expiry_is_shown_as_such() {
    client()
        .command(&["HSET", "inspect:java", "30c9b6e8-0000-4000-8000-000000000001:63", "2"])
        .expect("a reply");
    let text = leasehold(server(), &["inspect", "inspect:java"]).expect_code(0).stdout;
    assert!(text.contains("000000000001:63") && text.contains("no known expiry, taken 2 times"), "{text}");
}

#[test]
fn a_key_that_is_no_lock_is_an_error_of_its_own() {
    client().command(&["SET", "inspect:text", "abc"]).expect("a reply");
    client().command(&["LPUSH", "inspect:list", "abc"]).expect("a reply");
    for name in ["inspect:text", "inspect:list"] {
        let ended = leasehold(server(), &["inspect", name]).expect_code(65);
        assert!(ended.stderr.starts_with("leasehold: ") && ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_hash_whose_fields_are_no_owners_is_no_lock() {
    client().command(&["HSET", "inspect:hash", "f", "v"]).expect("a reply");
    client().command(&["HSET", "inspect:hash:2", "30c9b6e8:63", "1", "f", "1"]).expect("a reply");
    for name in ["inspect:hash", "inspect:hash:2"] {
        for command in [
            &["inspect", name][..],
            &["inspect", name, "--kind", "exclusive"],
            &["who", name],
            &["release", name, "--force", "--yes"],
        ] {
            let ended = leasehold(server(), command).expect_code(65);
            let is_told = ended.stderr.contains("a hash that is no lock, its field \"f\" names no owner");
            assert!(is_told && ended.stdout.is_empty(), "{ended:?}");
        }
    }
}

#[test]
fn an_owner_without_a_count_is_no_owner() {
    client().command(&["HSET", "inspect:count", "30c9b6e8:63", "x"]).expect("a reply");
    for command in [&["inspect", "inspect:count"][..], &["release", "inspect:count", "--force", "--yes"]] {
        let ended = leasehold(server(), command).expect_code(65);
        let text = "the key of \"inspect:count\" holds a hash that is no lock, its field \"30c9b6e8:63\" has no count";
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn a_read_write_lock_is_no_exclusive_one() {
    client().command(&["HSET", "inspect:read", "mode", "read", "30c9b6e8:63", "1"]).expect("a reply");
    let ended = leasehold(server(), &["inspect", "inspect:read", "--kind", "exclusive"]).expect_code(65);
    assert!(ended.stderr.contains("a read/write lock; leave out --kind"), "{ended:?}");
}

#[test]
fn each_reader_is_shown() {
    let command = ["run", "inspect:readers", "--kind", "read", "--", "sleep", "600"];
    let readers = [Program::start(server(), &command), Program::start(server(), &command)];
    until(server(), "inspect:readers", |report| {
        report["holders"].as_array().is_some_and(|all| all.len() == 2)
    });
    let report = leasehold(server(), &["inspect", "inspect:readers", "--json"]).expect_code(0).document();
    assert_eq!(report["kind"], "read_write");
    until_held(server(), "inspect:readers");
    for reader in readers {
        reader.signal(Signal::TERM);
        reader.end().expect_code(143);
    }
}
