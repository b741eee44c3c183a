//! One run of an example: started, watched, ended by its process id whatever happens to the test.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use leasehold_tests::harness::polling::found_within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running example.
pub(crate) struct Program {
    child: Child,
    stdout: thread::JoinHandle<String>,
    stderr_lines: Receiver<String>,
    stderr: String,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn start(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("cargo has built it");
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (tell, stderr_lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Self { child, stdout: thread::spawn(move || text_of(stdout)), stderr_lines, stderr: String::new() }
    }

    /// Waits until a line of stderr is of this kind, and returns it.
    pub(crate) fn until_stderr(&mut self, kind: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.stderr_lines.recv_timeout(left) else {
                panic!("stderr had no such line within {PATIENCE:?}:\n{}", self.stderr);
            };
            self.note(&line);
            if kind(&line) {
                return line;
            }
        }
    }

    /// What stderr has said up to now is not waited for any more.
    pub(crate) fn forget_stderr(&mut self) {
        while let Ok(line) = self.stderr_lines.try_recv() {
            self.note(&line);
        }
    }

    /// As Ctrl-C on a terminal does.
    pub(crate) fn interrupt(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("it runs");
    }

    pub(crate) fn end(mut self) -> Ended {
        let status = found_within(PATIENCE, || self.child.try_wait().expect("it is our child"));
        let Some(status) = status else { panic!("it still runs after {PATIENCE:?}:\n{}", self.stderr) };
        self.ended(status)
    }

    fn ended(mut self, status: ExitStatus) -> Ended {
        while let Ok(line) = self.stderr_lines.recv_timeout(PATIENCE) {
            self.note(&line);
        }
        let stdout = std::mem::replace(&mut self.stdout, thread::spawn(String::new));
        let stdout = stdout.join().expect("read to its end");
        Ended { code: status.code(), stdout, stderr: std::mem::take(&mut self.stderr) }
    }

    fn note(&mut self, line: &str) {
        self.stderr.push_str(line);
        self.stderr.push('\n');
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Its output is in the message if the code is another one.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The last line of stdout.
    pub(crate) fn json(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }
}

fn text_of(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

/// Runs an example to its end.
pub(crate) fn run(path: &str, arguments: &[&str]) -> Ended {
    Program::start(path, arguments).end()
}

/// Far above the longest run here; only a program that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
