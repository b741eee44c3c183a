//! A second process that ends the command if this one is killed or stopped.
//!
//! It is the same program, started as `leasehold guard`. Its stdin is a pipe from `run`: a line with the grace, the
//! lead and the mark in the environment of the command; a line with each deadline, on the boot clock; a line with the
//! process group of the command; and a line when all is over. If the last deadline comes near, `run` stands still; if
//! the pipe ends without that last line, `run` was killed. The guard then ends all processes with the mark.
//!
//! The guard may be stopped, too. So `run` lets it go on with each deadline that it tells, and the guard reads all that
//! the pipe has before it judges.

use std::{
    io::{self, BufRead, ErrorKind, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use leasehold::clock::{Clock, Instant};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::ioctl_fionbio,
    process::{Pid, Signal, kill_process},
    stdio::stdin,
};
use tokio::signal::unix::SignalKind;

use super::{
    process_table::{self, VARIABLE},
    signals,
    stop_plan::StopPlan,
};
use crate::{duration::millis, exit};

/// The other process, as `run` has it. Dropping it says that the command is to live on without it, or has ended.
pub(super) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    plan: StopPlan,
    mark: String,
    deadline: Instant,
    group: Option<Pid>,
}

impl Guard {
    /// Starts the other process, which does nothing yet.
    pub(super) fn start(plan: StopPlan) -> io::Result<Self> {
        let (child, pipe) = spawn()?;
        let mark = format!("{}-{}", std::process::id(), since_boot(Clock::Boot.now()));
        Ok(Self { child, pipe, plan, mark, deadline: Instant::default(), group: None })
    }

    /// What the environment of every process below this run has.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// A command is about to be started, with this variable in its environment. From now on the other process ends it
    /// if this process is killed or stopped.
    pub(super) fn announce(&mut self, remaining: Duration) -> (&'static str, Option<String>) {
        self.deadline = Clock::Boot.now() + remaining;
        self.tell_all();
        let marks = match std::env::var(VARIABLE) {
            Ok(outer) if !outer.is_empty() => format!("{outer},{}", self.mark),
            _ => self.mark.clone(),
        };
        (VARIABLE, Some(marks))
    }

    /// The command is this process group.
    pub(super) fn watch(&mut self, group: Pid) {
        self.group = Some(group);
        let _ = self.say(&group_line(group));
    }

    /// The lease lasts for this time. A guard that has ended is replaced; one that reads nothing is ended before.
    pub(super) fn renewed(&mut self, remaining: Duration) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            if let Ok((child, pipe)) = spawn() {
                (self.child, self.pipe) = (child, pipe);
                self.tell_all();
            }
        }
        let deadline = Clock::Boot.now() + remaining;
        if deadline <= self.deadline + STEP {
            return;
        }
        match self.say(&deadline_line(deadline)) {
            Ok(()) => {
                self.deadline = deadline;
                let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
            }
            Err(_) => drop(self.child.kill()),
        }
    }

    fn tell_all(&mut self) {
        let (grace, lead) = (millis(self.plan.grace()), millis(self.plan.lead()));
        let mut text = format!("{grace} {lead} {}\n{}", self.mark, deadline_line(self.deadline));
        text.extend(self.group.map(group_line));
        let _ = self.say(&text);
    }

    // The pipe takes a short text whole or not at all, and never blocks.
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.pipe.as_mut().ok_or(ErrorKind::BrokenPipe)?.write_all(text.as_bytes())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.say("done\n");
        self.pipe = None;
        let _ = self.child.try_wait();
    }
}

fn spawn() -> io::Result<(Child, Option<ChildStdin>)> {
    let mut starting = Command::new(ITSELF);
    starting.arg("guard").process_group(0);
    starting.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = starting.spawn()?;
    let pipe = child.stdin.take();
    pipe.as_ref().map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
    Ok((child, pipe))
}

fn group_line(group: Pid) -> String {
    format!("group {}\n", group.as_raw_nonzero())
}

fn deadline_line(deadline: Instant) -> String {
    format!("until {}\n", since_boot(deadline))
}

fn since_boot(at: Instant) -> u64 {
    millis(at.since(Instant::default()))
}

/// What the other process has read.
#[derive(Default)]
struct Watch {
    grace: Duration,
    lead: Duration,
    mark: String,
    deadline: Option<Instant>,
    group: Option<Pid>,
    /// The beginning of the next line.
    line: Vec<u8>,
    is_over: bool,
    has_ended: bool,
}

impl Watch {
    /// Reads all that the pipe has.
    fn drain(&mut self, pipe: &mut impl BufRead) {
        loop {
            match pipe.read_until(b'\n', &mut self.line) {
                Ok(0) => self.has_ended = true,
                Ok(_) => {
                    let line = std::mem::take(&mut self.line);
                    self.read(String::from_utf8_lossy(&line).trim_end());
                    continue;
                }
                Err(error) => self.has_ended = error.kind() != ErrorKind::WouldBlock,
            }
            return;
        }
    }

    fn read(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("until", at)) => {
                let at = at.parse().map(|at| Instant::default() + Duration::from_millis(at));
                self.deadline = at.ok().or(self.deadline);
            }
            Some(("group", group)) => self.group = group_of(group),
            Some(_) => self.begin(line).unwrap_or_default(),
            None => self.is_over = line == "done",
        }
    }

    fn begin(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let mut time = || words.next()?.parse().ok().map(Duration::from_millis);
        (self.grace, self.lead) = (time()?, time()?);
        self.mark = words.next()?.to_owned();
        self.deadline = Some(Clock::Boot.now() + self.grace + self.lead);
        Some(())
    }

    /// The time until `run` stands still. `run` is first, if it is free to act.
    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline?.before(self.grace + self.lead / 2);
        Some(deadline.since(Clock::Boot.now()))
    }

    /// Waits until `run` is killed or stands still. Returns whether the command must be ended.
    fn wait(&mut self, pipe: &mut impl BufRead) -> bool {
        loop {
            self.drain(pipe);
            let mut left = self.left();
            if left == Some(Duration::ZERO) {
                // This process may have been stopped since it read.
                self.drain(pipe);
                left = self.left();
            }
            match left {
                _ if self.is_over || self.has_ended => return !self.is_over && !self.mark.is_empty(),
                Some(Duration::ZERO) => return true,
                left => pause(left.unwrap_or(LOOK_MOST)),
            }
        }
    }

    fn end(&mut self, pipe: &mut impl BufRead) {
        let now = Clock::Boot.now();
        let until = (now + self.grace).min(self.deadline.unwrap_or(now).before(self.lead / 2));
        // The command may be between its fork and its own environment.
        let look_until = if self.group.is_none() { now + STARTED_WITHIN } else { until };
        let mut is_told = false;
        while Clock::Boot.now() < if is_told { until } else { look_until } {
            self.drain(pipe);
            let is_alive = process_table::is_alive(self.group, &self.mark);
            if is_alive && !is_told {
                process_table::signal_all(self.group, &self.mark, Signal::TERM);
            } else if self.is_over || (is_told && !is_alive) {
                return;
            }
            is_told |= is_alive;
            thread::sleep(LOOK);
        }
        process_table::kill_all(self.group, &self.mark);
    }
}

/// The other process. Returns its exit code.
pub(crate) fn guard() -> u8 {
    let ends = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let _ = signals::ignore(&ends).and_then(|()| signals::ignore(&signals::stops()));
    // The program's own name would bring it the signals of `pkill leasehold`.
    let _ = std::fs::write("/proc/self/comm", "lease-guard");
    let mut pipe = io::stdin().lock();
    let mut watch = Watch::default();
    if ioctl_fionbio(stdin(), true).is_ok() && watch.wait(&mut pipe) {
        watch.end(&mut pipe);
    }
    exit::SUCCESS
}

/// Waits until the pipe has something, and for half of this time at most: the machine may sleep meanwhile.
fn pause(left: Duration) {
    let most = (left / 2).clamp(LOOK_LEAST, LOOK_MOST);
    let _ = poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], most.try_into().ok().as_ref());
}

fn group_of(line: &str) -> Option<Pid> {
    line.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw)
}

/// The program of the process that starts another, also if its file was replaced meanwhile.
const ITSELF: &str = "/proc/self/exe";
/// A deadline is told if it is later by this time.
const STEP: Duration = Duration::from_millis(20);
/// A command that was being started when `run` was killed has its environment within this time.
const STARTED_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
const LOOK_LEAST: Duration = Duration::from_millis(5);
const LOOK_MOST: Duration = Duration::from_secs(1);

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
