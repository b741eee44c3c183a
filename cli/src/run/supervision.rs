//! Looks after a running command: passes signals on, and stops it if its lease runs out.

use std::{io, process::ExitStatus, time::Duration};

use leasehold::{
    LossReason,
    clock::{Clock, Instant},
};
use rustix::process::Signal;

use super::{
    group::Group,
    guard::Guard,
    held::Held,
    news::News,
    signals::Signals,
    stop_plan::{Step, StopPlan, View},
};
use crate::{exit, failure::Failure, system_error::words};

/// How a command has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Its lease was lost, or nearly.
    pub(crate) was_stopped: bool,
}

impl Ended {
    /// The exit code of `run`, if the release confirms that the lease was held to the end.
    pub(crate) fn code(&self) -> u8 {
        if self.was_stopped { exit::LOST } else { exit::of_command(self.status) }
    }
}

struct Supervision<'a> {
    group: Group,
    guard: Guard,
    held: &'a Held,
    plan: StopPlan,
    news: &'a News<'a>,
    loss: Option<LossReason>,
    terminated: Option<Instant>,
    was_in_jeopardy: bool,
    /// When a suspended process was last looked for.
    looked: Instant,
}

const SUSPENDED_LOOK: Duration = Duration::from_millis(500);

/// Waits until the command has ended. Of a command that is stopped, everything that it has started has ended, too.
///
/// # Errors
/// The system does not say how it ended.
pub(crate) async fn supervise(
    (group, guard): (Group, Guard),
    held: &Held,
    plan: StopPlan,
    signals: &mut Signals,
    news: &News<'_>,
) -> Result<Ended, Failure> {
    let (loss, terminated, was_in_jeopardy) = (None, None, false);
    let looked = Clock::Boot.now();
    let mut supervision =
        Supervision { group, guard, held, plan, news, loss, terminated, was_in_jeopardy, looked };
    supervision.run(signals).await.map_err(|error| Failure::new(exit::CANNOT_START, words(&error)))
}

impl Supervision<'_> {
    async fn run(&mut self, signals: &mut Signals) -> io::Result<Ended> {
        let mut lost = self.held.lost();
        loop {
            if let Some(status) = self.group.status().filter(|_| self.is_over()) {
                self.group.release();
                return Ok(Ended { status, was_stopped: self.terminated.is_some() });
            }
            self.guard.renewed(self.held.remaining());
            let pause = match self.plan.step(self.view()) {
                Step::Wait(pause) => pause,
                Step::Terminate => {
                    self.terminate();
                    continue;
                }
                Step::Kill => return self.kill().await,
            };
            self.tell_jeopardy();
            let is_running = self.group.status().is_none();
            tokio::select! {
                biased;
                ended = self.group.ended(), if is_running => drop(ended?),
                reason = &mut lost, if self.loss.is_none() => self.loss = Some(reason),
                signal = signals.next() => self.group.signal(signal),
                () = tokio::time::sleep(pause) => self.resume(),
            }
        }
    }

    // What a command leaves behind is its own affair, unless it was stopped.
    fn is_over(&self) -> bool {
        self.terminated.is_none() || self.group.is_empty()
    }

    fn view(&self) -> View {
        let since_term = self.terminated.map(|at| Clock::Boot.now().since(at));
        View { remaining: self.held.remaining(), loss: self.loss, since_term }
    }

    fn terminate(&mut self) {
        self.group.signal_all(Signal::TERM);
        self.terminated = Some(Clock::Boot.now());
        self.news.stopping(self.loss, self.plan.grace());
    }

    async fn kill(&mut self) -> io::Result<Ended> {
        self.group.kill_all();
        self.news.killing();
        let status = self.group.ended().await?;
        self.group.release();
        Ok(Ended { status, was_stopped: true })
    }

    fn tell_jeopardy(&mut self) {
        let is_in_jeopardy = self.held.is_in_jeopardy();
        if is_in_jeopardy && !self.was_in_jeopardy {
            self.news.jeopardy(self.held.remaining());
        }
        self.was_in_jeopardy = is_in_jeopardy;
    }

    fn resume(&mut self) {
        let now = Clock::Boot.now();
        if now.since(self.looked) < SUSPENDED_LOOK {
            return;
        }
        self.looked = now;
        if self.group.resume() {
            self.news.resumed();
        }
    }
}
