//! Subscribers that panic, block or are slow, each in a process of its own.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use leasehold_tests::harness::stall::unless_stalled_for;

/// What such a process writes down: the same for every subscriber, and for one that is well.
const FACTS: [&str; 9] = [
    "healthy: Held",
    "short: Lost(Expired)",
    "losses: 2001",
    "another engine has the lock of run(): false",
    "run() goes on: true",
    "renewed by hand: true",
    "granted and released: true",
    "waited for a lock that is held within its limit: true",
    "unconfirmed: []",
];

/// Fails unless such a process writes down these facts.
fn assert_facts(subscriber: &str, keeps_output: bool) {
    unless_stalled_for(STALL_MAX, || assert_eq!(facts_with(subscriber, keeps_output), FACTS, "{subscriber}"));
}

fn facts_with(subscriber: &str, keeps_output: bool) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("facts");
    let mut command = Command::new(env!("CARGO_BIN_EXE_subscriber"));
    command.arg(subscriber).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let output = (child.stdout.take(), child.stderr.take());
    let readers = keeps_output.then(|| {
        let (mut out, mut err) = (output.0.expect("piped"), output.1.expect("piped"));
        [
            std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink())),
            std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink())),
        ]
    });
    let status = child.wait().expect("it ends");
    readers.into_iter().flatten().for_each(|reader| drop(reader.join()));
    let facts = fs::read_to_string(&path).unwrap_or_default();
    assert!(status.success(), "{status}: {facts}");
    facts.lines().map(str::to_owned).collect()
}

#[test]
fn with_a_closed_stderr_no_lease_is_harmed() {
    assert_facts("fmt", true); // the control
    assert_facts("fmt", false);
}

#[test]
fn a_subscriber_that_panics_harms_no_lease() {
    assert_facts("panics", true);
}

#[test]
fn a_subscriber_that_blocks_harms_no_lease() {
    assert_facts("blocks", true);
}

#[test]
fn a_slow_subscriber_harms_no_lease() {
    assert_facts("slow", true);
}

/// A quarter of the ttl of the process's leases.
const STALL_MAX: Duration = Duration::from_millis(500);
