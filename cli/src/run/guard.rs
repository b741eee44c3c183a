//! A second process that ends the command if this one is killed.
//!
//! It is the same program, started as `leasehold guard`. Its stdin is a pipe from `run`. The first line names the
//! process group and the grace. If the pipe ends without a second line, `run` was killed: nobody renews the lock any
//! more.

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

    /// From now on the other process ends this group if this process is killed.
    pub(super) fn watch(&mut self, group: Pid, grace: Duration) -> io::Result<()> {
        self.say(&format!("{} {}\n", group.as_raw_nonzero(), millis(grace)))
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
    let Some((group, grace)) = lines.next().as_deref().and_then(orders) else { return exit::SUCCESS };
    if lines.next().is_none() {
        end(group, grace);
    }
    exit::SUCCESS
}

/// The process group, and its time from SIGTERM to SIGKILL.
fn orders(line: &str) -> Option<(Pid, Duration)> {
    let (group, grace) = line.split_once(' ')?;
    let group = i32::from_str(group).ok().filter(|group| *group > 1).and_then(Pid::from_raw)?;
    Some((group, Duration::from_millis(grace.parse().ok()?)))
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
const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_a_group_and_a_time() {
        let (group, grace) = orders("42 1500").expect("orders");
        assert_eq!((group.as_raw_nonzero().get(), grace.as_millis()), (42, 1_500));
        for line in ["", "42", "42 x", "0 5", "1 5", "-7 5", "done"] {
            assert!(orders(line).is_none(), "{line}");
        }
    }
}
