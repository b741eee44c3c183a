//! Instructions of a job of this program, counted by valgrind's callgrind in a process of its own.

use std::process::Command;

use crate::profile;

/// Instructions of what this program does under `job TIMES`, once.
pub(crate) fn instructions(job: &[&str], times: usize) -> f64 {
    cost(job, times).all
}

/// Instructions.
pub(crate) struct Cost {
    pub(crate) all: f64,
    pub(crate) without_allocator: f64,
}

/// The instructions of one run of the job. The job runs `times` times and twice as often, so the cost of the program's
/// start cancels out.
pub(crate) fn cost(job: &[&str], times: usize) -> Cost {
    let (once, twice) = (callgrind(job, times), callgrind(job, 2 * times));
    let each = |of: fn(&Cost) -> f64| (of(&twice) - of(&once)) / times as f64;
    Cost { all: each(|cost| cost.all), without_allocator: each(|cost| cost.without_allocator) }
}

fn callgrind(job: &[&str], times: usize) -> Cost {
    let program = std::env::current_exe().expect("a program knows its path");
    let out = std::env::temp_dir().join(format!("leasehold-callgrind-{}-{times}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(program).args(job).arg(times.to_string());
    let done = command.output().expect("valgrind is installed: apt-get install valgrind");
    let profile = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(out);
    let text = String::from_utf8_lossy(&done.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let count = collected.unwrap_or_else(|| panic!("callgrind counts nothing: {text}")).1;
    let all: u64 = count.trim().parse().expect("a number of instructions");
    assert_eq!(profile::instructions(&profile), all, "the profile is read as it was meant");
    Cost { all: all as f64, without_allocator: profile::without_allocator(&profile) as f64 }
}
