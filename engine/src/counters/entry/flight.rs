//! The operation that is on its way, and when it may be sent again. Pure.
//!
//! The server remembers the number of an operation for `remember`. So no send of it, and no send of the `Void` that
//! settles it, may be executed later than a minute before the end of that time, counted from the first send. A server
//! whose clock has jumped may have forgotten the number earlier: then nothing is sent again.

use std::{num::NonZeroU32, time::Duration};

use super::{pace::Pace, work::CallerId, writes::Write};
use crate::{clock::Instant, transport::CounterOp};

/// An operation from its first send to the moment at which it is settled.
#[derive(Clone, Debug)]
pub(crate) struct Flight<R> {
    pub(super) number: u64,
    pub(super) cargo: Cargo<R>,
    /// The first send of this operation; of a `Void`, that of the operation that it settles.
    first_sent: Instant,
    /// The last send.
    pub(super) sent: Instant,
    /// Whether the answer to the last send is still awaited.
    pub(super) sending: bool,
    /// Whether an earlier send was not answered and may have been executed.
    pub(super) unsure: bool,
    /// The last caller that waited at the first send.
    pub(super) present: CallerId,
    /// How far the server's clock was ahead at the first send, in microseconds.
    ahead: Option<i64>,
}

/// What the operation is done for.
#[derive(Clone, Debug)]
pub(crate) enum Cargo<R> {
    /// Permits for these callers.
    Take(Vec<(CallerId, NonZeroU32)>),
    /// A look at the number.
    Look,
    Write(Write<R>),
    /// Settles the operation with this number.
    Void(u64),
}

impl<R> Cargo<R> {
    fn op(&self) -> CounterOp {
        match self {
            Cargo::Take(members) => CounterOp::Take(members.iter().map(|(_, permits)| *permits).collect()),
            Cargo::Look => CounterOp::Read,
            Cargo::Write(write) => write.op.clone(),
            Cargo::Void(number) => CounterOp::Void { number: *number },
        }
    }
}

/// One send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) number: u64,
    pub(crate) op: CounterOp,
    pub(crate) execute_by: Instant,
}

impl<R> Flight<R> {
    pub(super) fn first(
        number: u64,
        cargo: Cargo<R>,
        present: CallerId,
        now: Instant,
        ahead: Option<i64>,
    ) -> Self {
        let unsure = false;
        Self { number, cargo, first_sent: now, sent: now, sending: true, unsure, present, ahead }
    }

    /// The operation that settles this one.
    pub(super) fn to_void(&self, number: u64) -> Self {
        Self {
            number,
            cargo: Cargo::Void(self.number),
            first_sent: self.first_sent,
            sent: self.sent,
            sending: false,
            unsure: true,
            present: self.present,
            ahead: self.ahead,
        }
    }

    /// Whether this operation may be sent at all: the server still remembers its number then.
    pub(super) fn may_be_sent(&mut self, now: Instant, pace: &Pace, ahead: Option<i64>) -> bool {
        now < self.last_execution(pace) && !self.has_jumped(ahead)
    }

    pub(super) fn send(&mut self, now: Instant, pace: &Pace) -> Command {
        (self.sent, self.sending) = (now, true);
        let execute_by = (now + pace.command_timeout).min(self.last_execution(pace));
        Command { number: self.number, op: self.cargo.op(), execute_by }
    }

    fn last_execution(&self, pace: &Pace) -> Instant {
        self.first_sent + pace.remember.saturating_sub(REMEMBER_MARGIN)
    }

    fn has_jumped(&mut self, ahead: Option<i64>) -> bool {
        let Some(now) = ahead else { return false };
        now.abs_diff(*self.ahead.get_or_insert(now)) >= JUMP_MICROS
    }
}

/// How long before the server forgets a number the last send of it may be executed.
const REMEMBER_MARGIN: Duration = Duration::from_secs(60);
/// A server's clock that has moved by this much against ours has jumped: 30 s.
const JUMP_MICROS: u64 = 30_000_000;
