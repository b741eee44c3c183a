//! The command as a process group of its own, so that signals reach all that it has started.

use std::{
    ffi::OsString,
    io::{self, ErrorKind, IsTerminal},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus},
};

use rustix::{
    process::{Pid, Signal, getpgrp, kill_process_group},
    stdio::stdin,
    termios::{tcgetpgrp, tcsetpgrp},
};
use tokio::process::Child;

use super::process_table;
use crate::{exit, failure::Failure, system_error::words};

/// A command that was started. Dropping it kills the whole group.
pub(crate) struct Group {
    child: Child,
    id: Pid,
    /// What the environment of each of its processes has.
    mark: String,
    status: Option<ExitStatus>,
    is_in_foreground: bool,
    is_released: bool,
}

impl Group {
    /// Starts the command, with these variables in its environment; those without a value are removed. If this process is in the foreground of a terminal,
    /// the command takes that place: it may read, and Ctrl-C reaches it.
    ///
    /// # Errors
    /// It is not found, or cannot be executed.
    pub(crate) fn start(
        command: &[OsString],
        environment: Vec<(&'static str, Option<String>)>,
        mark: String,
    ) -> Result<Self, Failure> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| Failure::new(exit::USAGE, "there is no command; give it behind --"))?;
        let mut starting = Command::new(program);
        starting.args(arguments).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => starting.env(name, value),
                None => starting.env_remove(name),
            };
        }
        let child =
            tokio::process::Command::from(starting).spawn().map_err(|error| cannot_start(program, &error))?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| Failure::new(exit::CANNOT_START, "the command has no process id"))?;
        let mut group = Self { child, id, mark, status: None, is_in_foreground: false, is_released: false };
        group.is_in_foreground = group.take_terminal();
        Ok(group)
    }

    // Another process of this group, as a pager, may need the terminal if the output does not go there. The shell takes the terminal back when this process ends. A command that has tried to read too early was stopped.
    fn take_terminal(&self) -> bool {
        let is_all = io::stdout().is_terminal() && io::stderr().is_terminal();
        let is_ours = is_all && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        let taken = is_ours && tcsetpgrp(stdin(), self.id).is_ok();
        if taken {
            self.signal(Signal::CONT);
        }
        taken
    }

    /// The number of the process group.
    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// Sends a signal to all processes of the group. A group that has ended is no error.
    /// One that is suspended goes on, so that the signal reaches it.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
        let _ = kill_process_group(self.id, Signal::CONT);
    }

    /// Sends a signal to everything that the command has started.
    pub(crate) fn signal_all(&self, signal: Signal) {
        process_table::signal_all(Some(self.id), &self.mark, signal);
    }

    /// Kills everything that the command has started.
    pub(crate) fn kill_all(&self) {
        process_table::kill_all(Some(self.id), &self.mark);
    }

    /// Waits until the command has ended. What it has started may go on.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.child.wait().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// How the command has ended, if it has.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Whether nothing that the command has started is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.status.is_some() && !process_table::is_alive(Some(self.id), &self.mark)
    }

    /// Leaves what the command has started alone.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
    }

    /// Lets a command go on that Ctrl-Z has suspended, also if it is one of its children alone: no shell looks after
    /// them, and they would keep the lock. Returns whether there was one.
    pub(crate) fn resume(&self) -> bool {
        let is_stopped =
            self.is_in_foreground && self.status.is_none() && process_table::has_stopped(self.id);
        if is_stopped {
            self.signal(Signal::CONT);
        }
        is_stopped
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_released {
            self.kill_all();
        }
    }
}

fn cannot_start(program: &std::ffi::OsStr, error: &io::Error) -> Failure {
    let code = if error.kind() == ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_START };
    Failure::new(code, format!("the command {program:?} cannot be started: {}", words(error)))
}
