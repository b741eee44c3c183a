//! `leasehold` on a terminal, which the program `script` provides.

use std::{
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
};

use leasehold_tests::harness::polling::{found_within, holds_within};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    foreign_texts::{hostile_owners, must_be_safe, put},
    program::{PATIENCE, Program, leasehold, server, until, until_held},
};

struct Terminal {
    folder: TempDir,
    script: Child,
    keyboard: Option<ChildStdin>,
}

impl Terminal {
    fn start(command: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line = format!("{} {command}", env!("CARGO_BIN_EXE_leasehold"));
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--return", "--command", &line]).arg(folder.path().join("shown"));
        script.env("LEASEHOLD_URL", server()).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut script = script.spawn().expect("script, of the package bsdutils");
        let keyboard = script.stdin.take();
        Self { folder, script, keyboard }
    }

    fn shown(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("shown")).unwrap_or_default()
    }

    fn until(&self, text: &str) {
        assert!(holds_within(PATIENCE, || self.shown().contains(text)), "{}", self.shown());
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.as_mut().expect("piped").write_all(keys.as_bytes()).expect("typed");
    }

    /// The exit code and what was shown.
    fn end(mut self) -> (Option<i32>, String) {
        let ended = found_within(PATIENCE, || self.script.try_wait().expect("it is our child"));
        let status = ended.unwrap_or_else(|| panic!("it does not end: {}", self.shown()));
        (status.code(), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Types `keys` once the command has said "ready".
fn typed(command: &str, keys: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::start(command);
    terminal.until("\nready");
    terminal.press(keys);
    terminal.end()
}

#[test]
fn the_command_reads_what_is_typed() {
    let (code, shown) = typed("run terminal:read -- sh -c 'echo ready; read x; echo got $x'", "hello\n");
    assert!(code == Some(0) && shown.contains("got hello"), "{code:?}: {shown}");
}

#[test]
fn ctrl_c_reaches_the_command() {
    let command = "'trap \"echo told; exit 4\" INT; echo ready; sleep 600 & wait'";
    let (code, shown) = typed(&format!("run terminal:interrupt -- sh -c {command}"), "\x03");
    assert!(code == Some(4) && shown.contains("told"), "{code:?}: {shown}");
}

#[test]
fn a_suspended_command_goes_on() {
    let (code, shown) = typed("run terminal:suspend -- sh -c 'echo ready; sleep 1; echo end'", "\x1a");
    assert!(
        code == Some(0) && shown.contains("cannot be suspended") && shown.contains("end"),
        "{code:?}: {shown}"
    );
}

#[test]
fn release_asks_and_only_yes_is_yes() {
    let type_yes = "type yes in full to release; nothing was released";
    for (answer, code, says) in [("no", 1, type_yes), ("y", 1, type_yes), ("yes", 0, ": released")] {
        let name = format!("terminal:asks:{answer}");
        let _holder = Program::start(server(), &["run", &name, "--", "sleep", "600"]);
        until_held(server(), &name);
        let mut terminal = Terminal::start(&format!("release {name} --force"));
        terminal.until(&format!("Release it at {}? Type yes: ", server().trim_start_matches("redis://")));
        terminal.press(&format!("{answer}\n"));
        let (ended, shown) = terminal.end();
        assert!(
            ended == Some(code) && shown.contains("held by") && shown.contains(says),
            "{ended:?}: {shown}"
        );
    }
}

#[test]
fn a_release_does_nothing_if_another_holder_came_before_the_answer() {
    let name = "terminal:changed";
    let command = ["run", name, "--", "sleep", "600"];
    let first = Program::start(server(), &command);
    until_held(server(), name);
    let owner =
        || leasehold(server(), &["inspect", name, "--json"]).document()["holders"][0]["owner"].clone();
    let before = owner();
    let mut terminal = Terminal::start(&format!("release {name} --force"));
    terminal.until("Type yes: ");
    first.signal(Signal::TERM);
    first.end().expect_code(143);
    let _second = Program::start(server(), &command);
    until(server(), name, |report| report["mode"] != "free");
    assert_ne!(owner(), before);
    terminal.press("yes\n");
    let (code, shown) = terminal.end();
    assert!(code == Some(1) && shown.contains("changed meanwhile"), "{code:?}: {shown}");
}

#[test]
fn the_question_of_a_release_shows_no_invisible_characters() {
    for (number, owner) in hostile_owners().iter().enumerate() {
        let name = format!("terminal:foreign:{number}");
        put(&name, owner);
        let mut terminal = Terminal::start(&format!("release {name} --force"));
        terminal.until("Type yes");
        terminal.press("no\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(1), "{shown:.4000}");
        must_be_safe(&shown);
    }
}
