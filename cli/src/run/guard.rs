//! A second process that ends the command if this one is killed.
//!
//! It is the same program, started as `leasehold guard`. Its stdin is a pipe from `run`: a line with the grace before the
//! command is started, a line with its process group afterwards, and a line when all is over. If the pipe ends without that
//! last line, `run` was killed, and the lock is not renewed any more. If it was killed while it started the command, the
//! guard finds the command by a variable in its environment.

use std::{
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    str::FromStr,
    thread,
    time::Duration,
};

use leasehold::clock::Clock;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::process_table;
use crate::{duration::millis, exit};

/// The other process, as `run` has it. Dropping it says that the command is to live on without it, or has ended.
pub(super) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the other process, which does nothing yet.
    pub(super) fn start() -> io::Result<Self> {
        let mut starting = Command::new(ITSELF);
        starting
            .arg("guard")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = starting.spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// A command is about to be started, with this variable in its environment. From now on the other process ends it if
    /// this process is killed.
    pub(super) fn announce(&mut self, grace: Duration) -> io::Result<(&'static str, String)> {
        self.say(&format!("{}\n", millis(grace)))?;
        Ok((VARIABLE, self.child.id().to_string()))
    }

    /// The command is this process group.
    pub(super) fn watch(&mut self, group: Pid) -> io::Result<()> {
        self.say(&format!("{}\n", group.as_raw_nonzero()))
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(line.as_bytes())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.say("done\n");
        self.pipe = None;
        let _ = self.child.try_wait();
    }
}

/// The other process. Returns its exit code.
pub(crate) fn guard() -> u8 {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let Some(grace) = lines.next().and_then(|line| line.parse().ok()).map(Duration::from_millis) else {
        return exit::SUCCESS;
    };
    let groups = match lines.next() {
        None => groups_that_were_started(),
        Some(line) if lines.next().is_none() => group_of(&line).into_iter().collect(),
        Some(_over) => Vec::new(),
    };
    groups.into_iter().for_each(|group| end(group, grace));
    exit::SUCCESS
}

fn group_of(line: &str) -> Option<Pid> {
    let group = i32::from_str(line).ok().filter(|group| *group > 1)?;
    Pid::from_raw(group)
}

// The command may be between its fork and its own environment.
fn groups_that_were_started() -> Vec<Pid> {
    let until = Clock::Boot.now() + STARTED_WITHIN;
    loop {
        let groups = process_table::groups_with(VARIABLE, &std::process::id().to_string());
        if !groups.is_empty() || Clock::Boot.now() >= until {
            return groups;
        }
        thread::sleep(LOOK);
    }
}

fn end(group: Pid, grace: Duration) {
    let until = Clock::Boot.now() + grace;
    let _ = kill_process_group(group, Signal::TERM);
    let _ = kill_process_group(group, Signal::CONT);
    while Clock::Boot.now() < until && test_kill_process_group(group).is_ok() {
        thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

/// The program of the process that starts another, also if its file was replaced meanwhile.
const ITSELF: &str = "/proc/self/exe";
/// In the command's environment: the process id of its guard.
const VARIABLE: &str = "LEASEHOLD_GUARD";
/// A command that was being started when `run` was killed has its environment within this time.
const STARTED_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_number_above_one() {
        assert_eq!(group_of("42").map(|group| group.as_raw_nonzero().get()), Some(42));
        for line in ["", "42 1", "x", "0", "1", "-7", "done"] {
            assert!(group_of(line).is_none(), "{line}");
        }
    }
}
