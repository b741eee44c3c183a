//! A second process that ends the command if this one is killed or stopped.
//!
//! It is the same program, started as `leasehold guard`. Its stdin is a pipe from `run`: a line with the grace, the lead and
//! the mark in the environment of the command; a line with each deadline, on the boot clock; a line with the process group
//! of the command; and a line when all is over. If the last deadline comes near, `run` stands still; if the pipe ends without
//! that last line, `run` was killed. The guard then ends all processes with the mark.

use std::{
    io::{self, BufRead, ErrorKind, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use leasehold::clock::{Clock, Instant};
use rustix::{
    io::ioctl_fionbio,
    process::{Pid, Signal},
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

    /// A command is about to be started, with this variable in its environment. From now on the other process ends it if
    /// this process is killed or stopped.
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

    /// The lease lasts for this time. A guard that has ended is replaced.
    pub(super) fn renewed(&mut self, remaining: Duration) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            if let Ok((child, pipe)) = spawn() {
                (self.child, self.pipe) = (child, pipe);
                self.tell_all();
            }
        }
        let deadline = Clock::Boot.now() + remaining;
        if deadline > self.deadline + STEP && self.say(&deadline_line(deadline)).is_ok() {
            self.deadline = deadline;
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
struct Watch {
    grace: Duration,
    lead: Duration,
    mark: String,
    deadline: Instant,
    group: Option<Pid>,
}

impl Watch {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut time = || words.next()?.parse().ok().map(Duration::from_millis);
        let (grace, lead) = (time()?, time()?);
        let mark = words.next().filter(|mark| !mark.is_empty())?.to_owned();
        let deadline = Clock::Boot.now() + grace + lead;
        Some(Self { grace, lead, mark, deadline, group: None })
    }

    /// Reads a line. Returns whether all is over.
    fn read(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("until", at)) => {
                self.deadline =
                    at.parse().map_or(self.deadline, |at| Instant::default() + Duration::from_millis(at));
            }
            Some(("group", group)) => self.group = group_of(group),
            _ => return line == "done",
        }
        false
    }

    /// Waits until `run` is killed or stands still. Returns whether the command must be ended.
    fn wait(&mut self, lines: &Receiver<String>) -> bool {
        loop {
            // `run` is first, if it is free to act.
            let left = self.deadline.before(self.grace + self.lead / 2).since(Clock::Boot.now());
            match lines.recv_timeout(left) {
                Ok(line) if self.read(&line) => return false,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn end(&self) {
        let now = Clock::Boot.now();
        let until = (now + self.grace).min(self.deadline.before(self.lead / 2));
        // The command may be between its fork and its own environment.
        let look_until = if self.group.is_none() { now + STARTED_WITHIN } else { until };
        let mut is_told = false;
        while Clock::Boot.now() < if is_told { until } else { look_until } {
            let is_alive = process_table::is_alive(self.group, &self.mark);
            if is_alive && !is_told {
                process_table::signal_all(self.group, &self.mark, Signal::TERM);
            } else if is_told && !is_alive {
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
    let (sender, lines) = channel();
    thread::spawn(move || {
        let said = io::stdin().lock().lines().map_while(Result::ok);
        said.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    let Some(mut watch) = lines.recv().ok().and_then(|line| Watch::of(&line)) else { return exit::SUCCESS };
    if watch.wait(&lines) {
        watch.end();
    }
    exit::SUCCESS
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
