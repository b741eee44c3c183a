//! Whether the machine's processors may sleep between two pieces of work.
//!
//! A processor that sleeps wakes up late. That makes every contestant slow, and the plainest client the most, so a ratio
//! to it looks better. A busy service keeps its processors awake.

use std::{
    fmt,
    io::Read,
    process::{Child, Command, Stdio},
    thread,
};

/// What the processors do while no contestant has work for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processors {
    MaySleep,
    KeptAwake,
}

impl Processors {
    pub(crate) const BOTH: [Self; 2] = [Self::MaySleep, Self::KeptAwake];

    /// Holds for as long as the result lives.
    pub(crate) fn arrange(self) -> KeptAwake {
        KeptAwake(match self {
            Self::MaySleep => Vec::new(),
            Self::KeptAwake => (0..processors()).map(start).collect(),
        })
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaySleep => "may sleep",
            Self::KeptAwake => "kept awake",
        })
    }
}

/// One busy process for each processor. It runs only while no other process wants that processor. Dropping this ends the
/// processes.
pub(crate) struct KeptAwake(Vec<Child>);

impl Drop for KeptAwake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself; what matters is that it is reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `chrt --idle` gives it `SCHED_IDLE`: any other thread that becomes ready takes the processor at once.
fn start(processor: usize) -> Child {
    let program = std::env::current_exe().expect("a program knows its path");
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &processor.to_string(), "chrt", "--idle", "0"]);
    command.arg(program).arg("--stay-awake").stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("taskset and chrt are installed: apt-get install util-linux")
}

/// What the process does under `--stay-awake`: it computes until its standard input ends, which is when the process that
/// started it has ended.
pub(crate) fn stay_awake() {
    thread::spawn(|| {
        // No `spin_loop`: a host may take a virtual processor away that says it only waits.
        for round in 0_u64.. {
            std::hint::black_box(round);
        }
    });
    // An error is an end, too.
    let _ = std::io::stdin().read(&mut [0]);
}
