//! `leasehold` on a terminal, which the program `script` provides.

use std::{
    io::Write,
    path::Path,
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
        Self::shell(&format!("leasehold {command}"))
    }

    /// A line of a shell, which finds `leasehold`.
    fn shell(line: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().expect("a folder").display();
        let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
        let mut script = Command::new("script");
        // The command gets the terminal a moment behind its start.
        let line = line.replace("FOREGROUND", "until ps -o stat= -p $$ | grep -q +; do :; done");
        script.args(["--quiet", "--flush", "--return", "--command", &line]).arg(folder.path().join("shown"));
        script.env("LEASEHOLD_URL", server()).env("PATH", path).env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::null());
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
    typed_in(&format!("leasehold {command}"), keys)
}

/// The same in a line of a shell.
fn typed_in(line: &str, keys: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::shell(line);
    terminal.until("ready\r\n");
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
    let command = "'trap \"echo told; exit 4\" INT; FOREGROUND; echo ready; sleep 600 & wait'";
    let (code, shown) = typed(&format!("run terminal:interrupt -- sh -c {command}"), "\x03");
    assert!(code == Some(4) && shown.contains("told"), "{code:?}: {shown}");
}

#[test]
fn a_suspended_command_goes_on() {
    let (code, shown) =
        typed("run terminal:suspend -- sh -c 'FOREGROUND; echo ready; sleep 1; echo end'", "\x1a");
    assert!(
        code == Some(0) && shown.contains("cannot be suspended") && shown.contains("end"),
        "{code:?}: {shown}"
    );
}

#[test]
fn a_command_with_another_stdin_reads_the_terminal_when_it_needs_it() {
    for stdin in ["echo data |", "</dev/null"] {
        let line = format!(
            "{stdin} leasehold run terminal:piped -- sh -c 'echo ready; read x </dev/tty; echo got $x'"
        );
        let (code, shown) = typed_in(&line, "hello\n");
        assert!(code == Some(0) && shown.contains("got hello"), "{stdin} {code:?}: {shown}");
        let (code, shown) = typed_in(&line, "\x03");
        assert_eq!(code, Some(130), "{stdin}: {shown}");
        until(server(), "terminal:piped", |report| report["mode"] == "free");
    }
}

#[test]
fn a_pipeline_and_the_command_read_the_terminal_in_turn() {
    // With `set -m`, as in an interactive shell, a pipeline is a job, and the kernel stops it.
    let line = "set -m; (read a </dev/tty; echo $a) | leasehold run terminal:turn -- \
                sh -c 'echo ready; read x; read y </dev/tty; echo $x $y' | \
                (read ready; echo $ready; read all; echo $all; read z </dev/tty; echo third $z)";
    let mut terminal = Terminal::shell(line);
    terminal.until("ready\r\n");
    terminal.press("one\n");
    terminal.press("two\n");
    terminal.until("one two\r\n");
    terminal.press("three\n");
    let (code, shown) = terminal.end();
    assert!(code == Some(0) && shown.contains("third three"), "{code:?}: {shown}");
}

/// The shell has no job control, as that of every script: it does not take the terminal back itself.
#[test]
fn a_script_has_its_terminal_again_when_the_command_has_ended() {
    for command in [
        "true",
        "sh -c 'kill -9 $$'",
        "leasehold run terminal:inner --ttl 3s -- sh -c 'kill -9 $PPID; sleep 1'",
    ] {
        let line = format!("leasehold run terminal:script -- {command}; echo ready; read x; echo got $x");
        let (code, shown) = typed_in(&line, "hello\n");
        assert!(code == Some(0) && shown.contains("got hello"), "{command} {code:?}: {shown}");
        let (code, shown) = typed_in(&line, "\x03");
        assert_eq!(code, Some(130), "{command}: {shown}");
    }
}

#[test]
fn a_script_has_its_terminal_again_when_the_lock_is_lost() {
    let line = "stty tostop; leasehold run terminal:lost --ttl 3s -- \
                sh -c 'leasehold release terminal:lost --force --yes >/dev/null; sleep 600'; \
                stty -tostop; echo ready; read x; echo got $x";
    let (code, shown) = typed_in(line, "hello\n");
    assert!(code == Some(0) && shown.contains("lost") && shown.contains("got hello"), "{code:?}: {shown}");
}

#[test]
fn a_terminal_that_takes_no_output_keeps_no_command_alive() {
    let job = "FOREGROUND; echo process $$; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&format!("run terminal:still --ttl 3s -- sh -c '{job}'"));
    terminal.until("ready\r\n");
    let shown = terminal.shown();
    let id = shown.split("\nprocess ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an id");
    let process = format!("/proc/{id}");
    assert!(Path::new(&process).exists());
    terminal.press("\x13");
    leasehold(server(), &["release", "terminal:still", "--force", "--yes"]).expect_code(0);
    assert!(holds_within(PATIENCE, || !Path::new(&process).exists()));
    terminal.press("\x11");
    assert_eq!(terminal.end().0, Some(79));
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
