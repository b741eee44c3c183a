//! A holder in a process of its own, which can be stopped and killed.

use std::{fs, time::Duration};

use leasehold_tests::harness::{
    polling::found_within,
    server::{ServerCommand, ServerProcess},
};
use tempfile::TempDir;

pub(crate) struct HolderProcess {
    pub(crate) process: ServerProcess,
    dir: TempDir,
}

impl HolderProcess {
    /// Returns when it holds the lock.
    pub(crate) fn start(url: &str, name: &str, ttl: Duration) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let arguments = [url, name, &ttl.as_millis().to_string()].map(Into::into).into();
        let command = ServerCommand {
            program: env!("CARGO_BIN_EXE_holder").into(),
            arguments,
            env: Vec::new(),
            log: dir.path().join("said"),
            remedy: "cargo builds it".into(),
        };
        let holder = Self { process: ServerProcess::start(&command).expect("a process"), dir };
        holder.token();
        holder
    }

    pub(crate) fn token(&self) -> i64 {
        self.said("held ")[0].parse().expect("a token")
    }

    /// How long it stood still, and what `is_held` said first after that.
    pub(crate) fn after_standing_still(&self) -> (Duration, bool) {
        let words = self.said("still ");
        (Duration::from_millis(words[0].parse().expect("milliseconds")), words[1] == "true")
    }

    /// The words behind this beginning of its first such line.
    fn said(&self, beginning: &str) -> Vec<String> {
        let read = || fs::read_to_string(self.dir.path().join("said")).expect("what it said");
        let line = found_within(Duration::from_secs(20), || {
            let said = read();
            // A line without its end may be half a line.
            said.split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .find_map(|line| line.strip_prefix(beginning).map(str::to_owned))
        });
        let line = line.unwrap_or_else(|| panic!("no line {beginning:?} in {:?}", read()));
        line.split_whitespace().map(str::to_owned).collect()
    }
}
