//! The terminal of `run`, which the command gets while it needs it.
//!
//! A terminal belongs to one process group: the kernel stops the other groups if they read it. If stdin, stdout and
//! stderr are the terminal, no other process of this group needs it, and the command gets it at once. Otherwise another
//! process of a pipeline may ask for a password or be a pager: then each side gets the terminal when the kernel has
//! stopped it.

use std::{
    fs::File,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use leasehold::clock::Clock;
use rustix::{
    process::{Pid, Signal, getpgrp, kill_process_group},
    stdio::{stderr, stdin, stdout},
    termios::{tcgetpgrp, tcsetpgrp},
};

use super::process_table;
use crate::exit;

/// The terminal, and the groups that may have it.
pub(super) struct Terminal {
    terminal: File,
    ours: Pid,
    command: Pid,
}

impl Terminal {
    /// The terminal of this process, if it has one.
    pub(super) fn open(command: Pid) -> Option<Self> {
        Some(Self { terminal: File::open(TERMINAL).ok()?, ours: getpgrp(), command })
    }

    /// Whether no other process of this group needs the terminal. For a stream that is not this process's terminal,
    /// the kernel gives no group.
    pub(super) fn is_for_the_command(&self) -> bool {
        [stdin(), stdout(), stderr()].into_iter().all(|stream| tcgetpgrp(stream) == Ok(self.ours))
    }

    /// Gives the terminal to the command, if this group has it.
    pub(super) fn give(&self) -> bool {
        tcgetpgrp(&self.terminal) == Ok(self.ours) && tcsetpgrp(&self.terminal, self.command).is_ok()
    }

    /// Whether the command has the terminal, or could be given it.
    pub(super) fn is_near(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| [self.ours, self.command].contains(&group))
    }

    /// Takes the terminal back from what the command has started. Processes of this group that waited for it go on.
    pub(super) fn take_back(&self, mark: &str) {
        let Ok(group) = tcgetpgrp(&self.terminal) else { return };
        let is_below = || process_table::groups_with(process_table::VARIABLE, mark).contains(&group);
        // In this order: a process that ends loses its environment first.
        let is_left = || group == self.command || is_below() || !process_table::has_living(group);
        // A shell may have given it to another of its jobs meanwhile. For a moment a process that ends looks like one.
        if group != self.ours && (0..LOOKS).any(|_| is_left() || pause()) {
            bring_to_foreground(self.ours);
        }
        if tcgetpgrp(&self.terminal) == Ok(self.ours) {
            let _ = kill_process_group(self.ours, Signal::CONT);
        }
    }
}

fn pause() -> bool {
    thread::sleep(LOOK);
    false
}

// The kernel lets a process of another group do this only if SIGTTOU is ignored there, which a shell can arrange.
fn bring_to_foreground(group: Pid) {
    let itself = format!("/proc/{}/exe", std::process::id());
    let mut starting = Command::new("/bin/sh");
    starting.args(["-c", "trap '' TTOU; exec \"$0\" foreground \"$1\"", &itself]);
    starting.arg(group.as_raw_nonzero().to_string());
    starting.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = starting.spawn() else { return };
    let until = Clock::Boot.now() + FOREGROUND_WITHIN;
    while matches!(child.try_wait(), Ok(None)) && Clock::Boot.now() < until {
        thread::sleep(LOOK);
    }
    let _ = child.kill().and_then(|()| child.wait());
}

/// The program as that process: gives the terminal to this group. Returns the exit code.
pub(crate) fn foreground(group: i32) -> u8 {
    let given = Pid::from_raw(group)
        .and_then(|group| File::open(TERMINAL).ok().filter(|terminal| tcsetpgrp(terminal, group).is_ok()));
    if given.is_some() { exit::SUCCESS } else { exit::OUTPUT }
}

const TERMINAL: &str = "/dev/tty";
/// A machine under load may take this long to start two programs.
const FOREGROUND_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);
const LOOKS: u32 = 3;
