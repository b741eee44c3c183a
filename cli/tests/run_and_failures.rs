//! `leasehold run` when the lock is lost: the command ends before another client can have the lock.

use std::{
    fs,
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_tests::harness::{polling::holds_within, redis_server::RedisServer, stall::unless_stalled};

use rustix::process::Signal;

use crate::program::{PATIENCE, Program, leasehold, server, until, until_held};

/// Ignores SIGTERM, as a child of it does, and writes the time in ms every 20 ms.
fn stubborn(beats: &Path) -> String {
    let beats = beats.display();
    format!(
        "trap '' TERM; (while :; do date +%s%3N >> {beats}; sleep 0.02; done) & \
         while :; do sleep 0.05; done"
    )
}

fn last_beat(beats: &Path) -> u64 {
    let text = fs::read_to_string(beats).expect("beats");
    text.lines().last().expect("a beat").parse().expect("ms")
}

fn has_begun(beats: &Path) -> bool {
    fs::metadata(beats).is_ok_and(|file| file.len() > 0)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("it fits")
}

#[test]
fn a_command_that_ignores_sigterm_is_dead_before_the_deadline_when_the_server_is_killed() {
    unless_stalled(kill_the_server_of_a_stubborn_command);
}

fn kill_the_server_of_a_stubborn_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let beats = folder.path().join("beats");
    let mut server = RedisServer::start().expect("a server");
    let command = stubborn(&beats);
    let arguments = ["run", "job", "--ttl", TTL_TEXT, "--json", "--", "sh", "-c", &command];
    let program = Program::start(&server.url(), &arguments);
    assert!(holds_within(PATIENCE, || beats.exists()));
    until_held(&server.url(), "job");
    server.kill().expect("killed");
    // No renewal was sent after this moment and confirmed, so the server keeps the lock until here at the longest.
    let until = now_ms() + TTL_MS;
    let ended = program.end().expect_code(79);
    assert_eq!(ended.event("terminating")["name"], "job");
    assert_eq!(ended.event("killing")["name"], "job");
    assert!(last_beat(&beats) < until, "it worked for {} ms too long", last_beat(&beats) - until);
    let last = last_beat(&beats);
    std::thread::sleep(Duration::from_millis(300)); // fifteen beats
    assert_eq!(last_beat(&beats), last, "a child of the command still runs");
}

#[test]
fn a_server_that_comes_back_in_time_ends_nothing() {
    unless_stalled(stop_the_server_for_a_moment);
}

fn stop_the_server_for_a_moment() {
    let mut server = RedisServer::start().expect("a server");
    let arguments = ["run", "job", "--ttl", TTL_TEXT, "--json", "--", "sleep", "8"];
    let program = Program::start(&server.url(), &arguments);
    until_held(&server.url(), "job");
    server.stop().expect("stopped");
    program.until_event("jeopardy");
    server.cont().expect("it goes on");
    program.end().expect_code(0);
}

#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let beats = folder.path().join("beats");
    let command = stubborn(&beats);
    let arguments = ["run", "failures:taken", "--ttl", "3s", "--json", "--", "sh", "-c", &command];
    let program = Program::start(server(), &arguments);
    assert!(holds_within(PATIENCE, || beats.exists()));
    leasehold(server(), &["release", "failures:taken", "--force", "--yes"]).expect_code(0);
    let ended = program.end().expect_code(79);
    assert_eq!(ended.event("terminating")["loss"], "not_ours");
}

#[test]
fn a_command_that_obeys_sigterm_can_clean_up() {
    let command = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let arguments = ["run", "failures:polite", "--ttl", "3s", "--json", "--", "sh", "-c", command];
    let program = Program::start(server(), &arguments);
    program.until_line("ready");
    leasehold(server(), &["release", "failures:polite", "--force", "--yes"]).expect_code(0);
    let ended = program.end().expect_code(79);
    assert_eq!(ended.stdout, "ready\ncleaned\n");
}

#[test]
fn a_command_does_not_outlive_a_run_that_is_killed() {
    unless_stalled(kill_a_run);
}

fn kill_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let beats = folder.path().join("beats");
    let command = stubborn(&beats);
    let arguments = ["run", "failures:killed", "--ttl", TTL_TEXT, "--", "sh", "-c", &command];
    let program = Program::start(server(), &arguments);
    assert!(holds_within(PATIENCE, || beats.exists()));
    program.signal(Signal::KILL);
    // The lease lasted for longer than the grace, a sixth of the ttl.
    let until = now_ms() + TTL_MS;
    assert_eq!(program.end().code, None);
    let is_silent = || last_beat(&beats) + 300 < now_ms();
    assert!(holds_within(PATIENCE, is_silent));
    assert!(last_beat(&beats) < until);
}

#[test]
fn a_command_does_not_outlive_the_lease_of_a_run_that_is_stopped() {
    unless_stalled(stop_a_run);
}

fn stop_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let beats = folder.path().join("beats");
    let command = stubborn(&beats);
    let program =
        Program::start(server(), &["run", "failures:stopped", "--ttl", "3s", "--", "sh", "-c", &command]);
    assert!(holds_within(PATIENCE, || has_begun(&beats)));
    program.signal(Signal::STOP);
    let until = now_ms() + 3_000;
    assert!(holds_within(PATIENCE, || last_beat(&beats) + 300 < now_ms()));
    assert!(last_beat(&beats) < until);
    program.signal(Signal::CONT);
    program.end().expect_code(79);
}

#[test]
fn a_child_in_a_session_of_its_own_ends_with_the_lease() {
    for own in ["setsid --wait", "timeout 600"] {
        let folder = tempfile::tempdir().expect("a folder");
        let beats = folder.path().join("beats");
        let job = folder.path().join("job");
        fs::write(&job, stubborn(&beats)).expect("written");
        let command = format!("{own} sh {}; true", job.display());
        let arguments = ["run", "failures:session", "--ttl", "3s", "--", "sh", "-c", &command];
        let program = Program::start(server(), &arguments);
        assert!(holds_within(PATIENCE, || has_begun(&beats)));
        leasehold(server(), &["release", "failures:session", "--force", "--yes"]).expect_code(0);
        program.end().expect_code(79);
        assert!(holds_within(PATIENCE, || last_beat(&beats) + 300 < now_ms()), "{own}");
    }
}

#[test]
fn a_token_of_another_lock_is_not_inherited() {
    let variables = [("LEASEHOLD_URL", server()), ("LEASEHOLD_TOKEN", "7")];
    let command = "echo token=${LEASEHOLD_TOKEN-none}";
    let arguments = ["run", "failures:token", "--kind", "permits", "--limit", "2", "--", "sh", "-c", command];
    assert_eq!(Program::start_with(&variables, &arguments).end().expect_code(0).stdout, "token=none\n");
}

/// `run` was killed behind the start of its command, before it could tell the guard which one it is.
#[test]
fn a_guard_ends_a_command_that_was_just_being_started() {
    let itself = env!("CARGO_BIN_EXE_leasehold");
    let mut guard = Command::new(itself).arg("guard").stdin(Stdio::piped()).spawn().expect("a guard");
    let mut command = Command::new("sleep");
    command.arg("600").env("LEASEHOLD_GUARD", "outer,test-mark").process_group(0);
    let mut command = command.spawn().expect("sleep");
    guard.stdin.take().expect("a pipe").write_all(b"1000 100 test-mark\n").expect("told");
    assert_eq!(command.wait().expect("ended").signal(), Some(Signal::TERM.as_raw()));
    assert!(guard.wait().expect("ended").success());
}

#[test]
fn a_server_that_goes_away_during_a_wait_is_told() {
    let mut server = RedisServer::start().expect("a server");
    let url = server.url();
    let arguments = ["run", "job", "--kind", "fair", "--json", "--", "sleep", "600"];
    let variables = [("LEASEHOLD_URL", &*url), ("LEASEHOLD_ENGINE__UNAVAILABLE_AFTER_MS", "600000")];
    let _holder = Program::start(&url, &arguments);
    until_held(&url, "job");
    let waiter = Program::start_with(&variables, &arguments);
    until(&url, "job", |report| report["line"].as_array().is_some_and(|line| line.len() == 1));
    server.kill().expect("killed");
    waiter.until_event("unanswered");
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.end().expect_code(143).event("interrupted")["signal"], "SIGTERM");
}

#[test]
fn a_lock_that_was_taken_away_from_a_short_command_is_told_at_its_end() {
    let itself = env!("CARGO_BIN_EXE_leasehold");
    let arguments =
        ["run", "failures:short", "--json", "--", itself, "release", "failures:short", "--force", "--yes"];
    let ended = leasehold(server(), &arguments).expect_code(79);
    assert_eq!(ended.event("lost")["name"], "failures:short");
}

const TTL_TEXT: &str = "10s";
const TTL_MS: u64 = 10_000;
