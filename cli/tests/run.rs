//! `leasehold run`: exit codes, waiting, kinds, signals.

use std::fs;

use rustix::process::Signal;

use crate::program::{Program, client, cluster, leasehold, server, until_held};

/// A command that runs until it is told to end, and says so.
const UNTIL_TERM: &[&str] =
    &["sh", "-c", "trap 'echo told; exit 5' TERM INT; echo ready; while :; do sleep 0.05; done"];

fn run<'a>(name: &'a str, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["run", name], options, &["--"], command].concat()
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
        leasehold(server(), &run("run:codes", &[], &["sh", "-c", command])).expect_code(code);
    }
    leasehold(server(), &["inspect", "run:codes", "--json"]).expect_code(0);
}

#[test]
fn the_command_finds_the_lock_in_its_environment() {
    let show = "echo $LEASEHOLD_NAME; echo $LEASEHOLD_TOKEN; echo $LEASEHOLD_DEADLINE; date +%s%3N";
    let ended =
        leasehold(server(), &run("run:environment", &["--ttl", "20s"], &["sh", "-c", show])).expect_code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let [name, token, deadline, now] = lines[..] else { panic!("{ended:?}") };
    assert_eq!((name, ended.stderr.as_str()), ("run:environment", ""));
    assert!(token.parse::<i64>().expect("a number") > 0);
    let (deadline, now): (u64, u64) = (deadline.parse().expect("ms"), now.parse().expect("ms"));
    assert!((now..now + 20_000).contains(&deadline), "{deadline} at {now}");
}

#[test]
fn a_lock_of_another_process_is_a_conflict_with_its_own_code() {
    let holder = Program::start(server(), &run("run:conflict", &[], UNTIL_TERM));
    holder.until_line("ready");
    let tried = leasehold(server(), &run("run:conflict", &["--wait", "0"], &["echo", "ran"])).expect_code(1);
    assert!(tried.stdout.is_empty() && tried.stderr.contains("held by"), "{tried:?}");
    let options = ["--wait", "200ms", "--conflict-exit-code", "9", "--json"];
    let waited = leasehold(server(), &run("run:conflict", &options, &["echo", "ran"])).expect_code(9);
    assert_eq!(waited.event("conflict")["lock"]["holders"][0]["count"], 1);
    let once = leasehold(server(), &run("run:conflict", &["--once"], &["echo", "ran"])).expect_code(0);
    assert!(once.stdout.is_empty() && once.stderr.is_empty(), "{once:?}");
    holder.signal(Signal::TERM);
    holder.end().expect_code(5);
    let once = leasehold(server(), &run("run:conflict", &["--once"], &["echo", "ran"])).expect_code(0);
    assert_eq!(once.stdout, "ran\n");
}

#[test]
fn a_caller_that_waits_runs_when_the_holder_has_ended() {
    let holder = Program::start(server(), &run("run:wait", &[], UNTIL_TERM));
    holder.until_line("ready");
    let waiter = Program::start(server(), &run("run:wait", &["--wait", "60s"], &["echo", "ran"]));
    holder.signal(Signal::INT);
    assert_eq!(holder.end().expect_code(5).stdout, "ready\ntold\n");
    assert_eq!(waiter.end().expect_code(0).stdout, "ran\n");
}

#[test]
fn a_caller_that_waits_ends_at_a_signal() {
    let holder = Program::start(server(), &run("run:signal", &[], UNTIL_TERM));
    holder.until_line("ready");
    let waiter = Program::start(server(), &run("run:signal", &["--kind", "fair"], &["echo", "ran"]));
    crate::program::until(server(), "run:signal", |report| {
        report["line"].as_array().is_some_and(|line| line.len() == 1)
    });
    let json = Program::start(server(), &run("run:signal", &["--kind", "fair", "--json"], &["echo", "ran"]));
    crate::program::until(server(), "run:signal", |report| {
        report["line"].as_array().is_some_and(|line| line.len() == 2)
    });
    waiter.signal(Signal::TERM);
    json.signal(Signal::INT);
    let ended = waiter.end().expect_code(143);
    let text = "leasehold: ended by SIGTERM while it waited for \"run:signal\"\n";
    assert_eq!((&*ended.stdout, &*ended.stderr), ("", text));
    let event = json.end().expect_code(130).event("interrupted");
    assert_eq!((&event["signal"], &event["exit_code"]), (&"SIGINT".into(), &130.into()));
    holder.signal(Signal::TERM);
    holder.end().expect_code(5);
}

#[test]
fn the_lock_is_held_until_the_command_has_ended_after_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = folder.path().join("seen");
    let inspect =
        format!("{} inspect run:passed --json > {}", env!("CARGO_BIN_EXE_leasehold"), seen.display());
    let command =
        format!("trap 'sleep 0.3; {inspect}; exit 6' TERM; echo ready; while :; do sleep 0.05; done");
    let program = Program::start(server(), &run("run:passed", &[], &["sh", "-c", &command]));
    program.until_line("ready");
    program.signal(Signal::TERM);
    program.end().expect_code(6);
    assert!(fs::read_to_string(seen).expect("written").contains("\"mode\":\"exclusive\""));
    let after = leasehold(server(), &["inspect", "run:passed", "--json"]).expect_code(0);
    assert_eq!(after.document()["mode"], "free");
}

#[test]
fn every_kind_is_held_and_released_on_one_server_and_on_a_cluster() {
    let itself = env!("CARGO_BIN_EXE_leasehold");
    for (place, url) in [("single", server()), ("cluster", cluster())] {
        for (kind, mode) in [
            ("exclusive", "exclusive"),
            ("fenced", "exclusive"),
            ("fair", "exclusive"), // without a line a fair lock looks like any other
            ("read", "read"),
            ("write", "write"),
            ("permits", "permits"),
        ] {
            let name = format!("run:kind:{kind}");
            let limit: &[&str] = if kind == "permits" { &["--limit", "2", "--count", "2"] } else { &[] };
            let options = [&["--kind", kind], limit].concat();
            let ended =
                leasehold(url, &run(&name, &options, &[itself, "inspect", &name, "--json"])).expect_code(0);
            assert_eq!(ended.document()["mode"], mode, "{place}: {kind}");
            let after = leasehold(url, &["inspect", &name, "--json"]).expect_code(0).document();
            assert_eq!(after["mode"], "free", "{place}: {kind}");
        }
    }
}

#[test]
fn a_hash_that_is_no_lock_is_not_waited_for() {
    client().command(&["HSET", "run:hash", "f", "v"]).expect("a reply");
    for options in [&[][..], &["--wait", "60s"], &["--wait", "0"], &["--once"], &["--kind", "fair"]] {
        let ended = leasehold(server(), &run("run:hash", options, &["echo", "ran"])).expect_code(65);
        assert!(ended.stderr.contains("a hash that is no lock") && ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_wait_of_the_configuration_ends_as_one_of_the_command_line() {
    let _holder = Program::start(server(), &run("run:configured", &[], &["sleep", "600"]));
    until_held(server(), "run:configured");
    let ended = |name, wait_ms, kind| {
        let variables = [("LEASEHOLD_URL", server()), ("LEASEHOLD_ENGINE__WAIT_MS", wait_ms)];
        let options = ["--kind", kind, "--conflict-exit-code", "9", "--json"];
        Program::start_with(&variables, &run(name, &options, &["echo", "ran"])).end()
    };
    for (wait_ms, kind) in [("0", "exclusive"), ("200", "exclusive"), ("200", "fair")] {
        let conflict = ended("run:configured", wait_ms, kind).expect_code(9).event("conflict");
        assert_eq!(conflict["lock"]["holders"][0]["count"], 1, "{conflict}");
    }
    client().command(&["HSET", "run:hash:2", "f", "v"]).expect("a reply");
    ended("run:hash:2", "200", "exclusive").expect_code(65);
}

#[test]
fn more_permits_than_there_are_is_an_error() {
    let permits = |options: &[&'static str]| [&["--kind", "permits"], options].concat();
    let refused = |options: &[&'static str]| {
        leasehold(server(), &run("run:count", &permits(options), &["true"])).expect_code(64).stderr
    };
    let text = refused(&["--limit", "1", "--count", "2"]);
    assert_eq!(text, "leasehold: the semaphore \"run:count\" has 1 permit, and --count is 2; take fewer\n");
    assert!(refused(&["--count", "2", "--once"]).contains("--count is 2"));
    leasehold(server(), &run("run:count", &permits(&["--count", "1"]), &["true"])).expect_code(0);
}

#[test]
fn a_limit_that_differs_from_the_number_of_permits_is_told() {
    let permits = |limit| ["--kind", "permits", "--limit", limit];
    for limit in ["2", "2"] {
        let ended = leasehold(server(), &run("run:limit", &permits(limit), &["true"])).expect_code(0);
        assert!(ended.stderr.is_empty(), "{ended:?}");
    }
    let ended = leasehold(server(), &run("run:limit", &permits("5"), &["true"])).expect_code(0);
    let text = "leasehold: the semaphore \"run:limit\" has 2 permits; --limit 5 is ignored\n";
    assert_eq!(ended.stderr, text);
}

#[test]
fn permits_limit_how_many_run_at_once() {
    let permits = ["--kind", "semaphore", "--limit", "1"];
    let holder = Program::start(server(), &run("run:permits", &permits, UNTIL_TERM));
    holder.until_line("ready");
    leasehold(server(), &run("run:permits", &["--kind", "permits", "--wait", "0"], &["true"])).expect_code(1);
    holder.signal(Signal::TERM);
    holder.end().expect_code(5);
    leasehold(server(), &run("run:permits", &["--kind", "permits", "--wait", "0"], &["true"])).expect_code(0);
    let none = leasehold(server(), &run("run:no-permits", &["--kind", "permits"], &["true"])).expect_code(64);
    assert!(none.stderr.contains("--limit"), "{none:?}");
}

#[test]
fn at_least_keeps_the_lock_longer_than_the_command() {
    let short = Program::start(server(), &run("run:keep", &["--at-least", "30s", "--json"], &["true"]));
    until_held(server(), "run:keep");
    leasehold(server(), &run("run:keep", &["--once"], &["echo", "ran"])).expect_code(0);
    short.signal(Signal::TERM);
    let ended = short.end().expect_code(0);
    assert_eq!(ended.event("keeping")["name"], "run:keep");
    leasehold(server(), &run("run:keep", &["--wait", "0"], &["true"])).expect_code(0);
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_lock() {
    let missing = leasehold(server(), &run("run:missing", &[], &["no-such-command"])).expect_code(127);
    assert!(missing.stderr.contains("no-such-command"), "{missing:?}");
    leasehold(server(), &run("run:missing", &[], &["/etc/passwd"])).expect_code(126);
    leasehold(server(), &run("run:missing", &["--wait", "0"], &["true"])).expect_code(0);
}
