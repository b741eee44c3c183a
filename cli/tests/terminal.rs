//! `leasehold run` on a terminal, which `script` provides.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use leasehold_tests::harness::polling::{found_within, holds_within};

use crate::program::{PATIENCE, server};

/// Types `keys` once the command has said "ready". Returns the exit code and what the terminal showed.
fn typed(command: &str, keys: &[u8]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = folder.path().join("shown");
    let line = format!("{} {command}", env!("CARGO_BIN_EXE_leasehold"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", &line]).arg(&shown);
    script.env("LEASEHOLD_URL", server()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = script.spawn().expect("script, of the package bsdutils");
    let text = || std::fs::read_to_string(&shown).unwrap_or_default();
    assert!(holds_within(PATIENCE, || text().contains("ready")));
    let mut keyboard = child.stdin.take().expect("piped");
    keyboard.write_all(keys).expect("typed");
    let ended = found_within(PATIENCE, || child.try_wait().expect("it is our child"));
    drop(keyboard);
    let status = ended.unwrap_or_else(|| panic!("it does not end: {}", text()));
    (status.code(), text())
}

#[test]
fn the_command_reads_what_is_typed() {
    let (code, shown) = typed("run terminal:read -- sh -c 'echo ready; read x; echo got $x'", b"hello\n");
    assert!(code == Some(0) && shown.contains("got hello"), "{code:?}: {shown}");
}

#[test]
fn ctrl_c_reaches_the_command() {
    let command =
        "run terminal:interrupt -- sh -c 'trap \"echo told; exit 4\" INT; echo ready; sleep 600 & wait'";
    let (code, shown) = typed(command, b"\x03");
    assert!(code == Some(4) && shown.contains("told"), "{code:?}: {shown}");
}

#[test]
fn a_suspended_command_goes_on() {
    let (code, shown) = typed("run terminal:suspend -- sh -c 'echo ready; sleep 1; echo end'", b"\x1a");
    assert!(
        code == Some(0) && shown.contains("cannot be suspended") && shown.contains("end"),
        "{code:?}: {shown}"
    );
}

#[test]
fn release_asks_and_only_yes_is_yes() {
    for (answer, code, says) in [("no", 1, "nothing was released"), ("yes", 0, ": released")] {
        let itself = env!("CARGO_BIN_EXE_leasehold");
        let release = format!("{itself} release terminal:asks:{answer} --force");
        let command = format!("run terminal:asks:{answer} -- sh -c 'echo ready; {release}; echo code $?'");
        let (_, shown) = typed(&command, format!("{answer}\n").as_bytes());
        assert!(shown.contains(says) && shown.contains(&format!("code {code}")), "{shown}");
    }
}
