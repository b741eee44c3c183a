//! `leasehold release --force`.

use crate::program::{Program, cluster, leasehold, server, until_held};

#[test]
fn a_lock_of_another_process_is_released_and_told() {
    for url in [server(), cluster()] {
        for kind in ["exclusive", "fair", "write"] {
            let name = format!("release:{kind}");
            let _holder = Program::start(url, &["run", &name, "--kind", kind, "--", "sleep", "600"]);
            until_held(url, &name);
            let ended = leasehold(url, &["release", &name, "--force", "--yes", "--json"]).expect_code(0);
            assert_eq!(ended.document()["released"], true, "{kind}");
            let report = leasehold(url, &["inspect", &name, "--json"]).expect_code(0).document();
            assert_eq!(report["mode"], "free", "{kind}");
        }
    }
}

#[test]
fn a_free_lock_is_told_with_a_code_of_its_own() {
    let ended =
        leasehold(server(), &["release", "release:free", "--force", "--yes", "--json"]).expect_code(1);
    let at = server().trim_start_matches("redis://");
    assert_eq!((&ended.document()["released"], &ended.document()["servers"]), (&false.into(), &at.into()));
    let text = leasehold(server(), &["release", "release:free", "--force", "--yes"]).expect_code(1).stdout;
    assert_eq!(text, format!("\"release:free\" at {at}: the lock is free\n"));
}

#[test]
fn without_force_or_without_a_terminal_nothing_is_done() {
    let _holder = Program::start(server(), &["run", "release:asks", "--", "sleep", "600"]);
    until_held(server(), "release:asks");
    assert!(leasehold(server(), &["release", "release:asks"]).expect_code(64).stderr.contains("--force"));
    let asks = leasehold(server(), &["release", "release:asks", "--force"]).expect_code(64);
    assert!(asks.stderr.contains("--yes"), "{asks:?}");
    let report = leasehold(server(), &["inspect", "release:asks", "--json"]).expect_code(0).document();
    assert_eq!(report["mode"], "exclusive");
}

#[test]
fn permits_are_not_released() {
    let _holder = Program::start(
        server(),
        &["run", "release:permits", "--kind", "permits", "--limit", "1", "--", "sleep", "600"],
    );
    until_held(server(), "release:permits");
    let ended = leasehold(server(), &["release", "release:permits", "--force", "--yes"]).expect_code(64);
    assert!(ended.stderr.contains("ttl"), "{ended:?}");
}
