//! A wall clock that stands still until a test moves it, for one server.

use std::{
    ffi::OsString,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::server::Server;

/// The time of a server.
pub(crate) struct Clock {
    dir: TempDir,
    file: File,
    ms: i64,
}

/// A server whose time is the test's.
pub(crate) struct Frozen {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
}

impl Frozen {
    pub(crate) fn start(program: &Path) -> Self {
        let clock = Clock::new();
        // A server that remembers the time looks at it anew this often.
        let server = Server::start_with(program, &["--hz", "500"], &clock.env());
        let seconds = server.client().ok(&["TIME"]).list()[0].text();
        assert_eq!(seconds, (START_MS / 1_000).to_string(), "{program:?} has a clock of its own");
        Self { server, clock }
    }
}

impl Clock {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("leasehold-frozen-").tempdir().unwrap();
        compile(dir.path());
        let file = File::create(dir.path().join(TIME)).unwrap();
        let mut clock = Self { dir, file, ms: START_MS };
        clock.pass(0);
        clock
    }

    fn env(&self) -> [(OsString, OsString); 2] {
        let path = |name: &str| OsString::from(self.dir.path().join(name));
        [("LD_PRELOAD".into(), path(LIBRARY)), ("FROZEN_CLOCK".into(), path(TIME))]
    }

    /// Moves the time by so many ms, back if negative.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.ms += ms;
        self.file.write_all_at(&(self.ms * 1_000).to_le_bytes(), 0).unwrap();
    }

    /// The time in ms since 1970.
    pub(crate) fn ms(&self) -> i64 {
        self.ms
    }
}

fn compile(dir: &Path) {
    let source: PathBuf = dir.join("frozen_clock.c");
    std::fs::write(&source, include_str!("frozen_clock.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(dir.join(LIBRARY)).arg(source);
    let output = cc.output().expect("cc must be installed: apt-get install gcc libc6-dev");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const LIBRARY: &str = "frozen_clock.so";
const TIME: &str = "time";
const START_MS: i64 = 1_800_000_000_000;
