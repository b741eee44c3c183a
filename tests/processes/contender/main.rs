//! One process of the tests with several: its tasks contend for locks, and it writes down what they believed to hold.
//!
//! It says `ready` once its engines are connected, begins at the line `go`, and ends with one line of JSON. The end of
//! stdin ends it at once, as a kill would: a test that dies leaves no process behind.
#![allow(clippy::disallowed_methods, reason = "a process of its own, in real time")]

mod arguments;
mod contest;
mod holder;
mod tally;

use std::io::{self, BufRead, Write};
use std::process::{ExitCode, exit};
use std::sync::mpsc::{self, Receiver};

use arguments::Arguments;

/// Both binaries are this.
pub fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(contest::hold(arguments, begun)) {
        Ok(tally) => say(&tally.to_json()),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Says `ready` and waits for `go`; from then on a thread waits for the end of stdin.
fn begun() {
    say("ready");
    let (sender, go) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line == "go" {
                let _ = sender.send(());
            }
        }
        exit(STDIN_ENDED)
    });
    wait(&go);
}

fn wait(go: &Receiver<()>) {
    // The other end lives until the process ends.
    let _ = go.recv();
}

/// One line, out at once.
fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        exit(NOBODY_READS);
    }
}

const STDIN_ENDED: i32 = 9;
const NOBODY_READS: i32 = 8;
