//! Contenders started together, and what they leave when they have ended.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold_tests::harness::checkers::{grants_per_process, overlaps, process_changes, token_order};
use leasehold_tests::harness::recorder::{Window, read_windows};
use leasehold_tests::harness::stall::no_stall_excuses;
use leasehold_tests::harness::talker::Talker;
use serde_json::Value;
use tempfile::TempDir;

/// One contender to come.
#[derive(Clone, Debug, Default)]
pub struct Entrant {
    /// The servers, or a proxy in front of one.
    pub url: String,
    /// The flags that are not the same for everybody, and those that are.
    pub flags: Vec<String>,
    /// With this fault, from the build with faults.
    pub fault: Option<(std::path::PathBuf, &'static str)>,
}

/// Contenders that run.
pub struct Lineup {
    talkers: Vec<Talker>,
    windows: TempDir,
}

/// What came of a contest.
pub struct Outcome {
    /// All windows of all contenders.
    pub windows: Vec<Window>,
    /// The last words of each.
    pub tallies: Vec<Value>,
}

impl Entrant {
    /// A healthy one.
    pub fn new(url: String, flags: &str) -> Self {
        Self { url, flags: flags.split_whitespace().map(str::to_owned).collect(), fault: None }
    }

    fn command(&self, windows: &Path) -> Command {
        let healthy = Path::new(env!("CARGO_BIN_EXE_contender"));
        let program = self.fault.as_ref().map_or(healthy, |(program, _)| program);
        let mut command = Command::new(program);
        command.arg("--url").arg(&self.url).arg("--windows").arg(windows).args(&self.flags);
        match &self.fault {
            Some((_, name)) => command.env("LEASEHOLD_FAULT", name),
            None => command.env_remove("LEASEHOLD_FAULT"),
        };
        command
    }
}

impl Lineup {
    /// Starts all and waits until each is connected.
    pub fn ready(entrants: &[Entrant]) -> Self {
        let windows = TempDir::new().expect("a directory");
        let talkers: Vec<_> = entrants
            .iter()
            .map(|entrant| Talker::start(&mut entrant.command(windows.path())).expect("a contender"))
            .collect();
        for talker in &talkers {
            talker.line(CONNECTED_BY, |line| line == "ready").expect("a contender that is connected");
        }
        Self { talkers, windows }
    }

    /// They begin.
    pub fn go(&mut self) {
        for talker in &mut self.talkers {
            talker.say("go").expect("a contender that listens");
        }
    }

    /// One of them.
    pub fn talker(&mut self, number: usize) -> &mut Talker {
        &mut self.talkers[number]
    }

    /// Waits for all; `run` is how long they were told to run.
    pub fn outcome(self, run: Duration) -> Outcome {
        let words = self.talkers.iter().map(|talker| talker.last_words(run + ENDED_BY));
        let tallies = words
            .map(|words| serde_json::from_str(&words.expect("a contender that ends")).expect("its tally"))
            .collect();
        Outcome { windows: read_windows(self.windows.path()).expect("their windows"), tallies }
    }
}

impl Outcome {
    /// The sum of one count over all contenders.
    pub fn sum(&self, name: &str) -> u64 {
        self.tallies.iter().map(|tally| tally[name].as_u64().expect("a count")).sum()
    }

    /// S1, S6: no windows overlap, tokens rise, each lease was released as ours, and nobody met trouble.
    pub fn assert_healthy(&self) {
        self.assert_exclusive();
        for tally in &self.tallies {
            assert_eq!(tally["granted"], tally["released"], "{tally}");
            assert_eq!((&tally["failed"], &tally["left_behind"]), (&0.into(), &0.into()), "{tally}");
            assert_eq!(tally["unconfirmed"], Value::Array(Vec::new()), "{tally}");
        }
        assert_eq!(self.windows.len() as u64, self.sum("granted"), "a window for each grant");
    }

    /// S1, S6 alone.
    pub fn assert_exclusive(&self) {
        let report = overlaps(&self.windows);
        no_stall_excuses(|| {
            assert_eq!(report.violations, [], "{} windows", report.windows);
            assert_eq!(token_order(&self.windows), []);
        });
    }

    /// One line for who reads the log.
    pub fn print(&self, name: &str) {
        let changes = process_changes(&self.windows);
        let (fewest, most) = (changes.values().min(), changes.values().max());
        println!(
            "{name}: {} grants, {} asks, per process {:?}, changes of process per key {fewest:?} to {most:?}",
            self.windows.len(),
            self.sum("asks"),
            grants_per_process(&self.windows),
        );
    }
}

/// A busy machine starts a process in well below that.
const CONNECTED_BY: Duration = Duration::from_secs(30);
const ENDED_BY: Duration = Duration::from_secs(30);
