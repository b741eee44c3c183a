//! What callers ask of a counter, and what they are told. Pure.

use std::{num::NonZeroU32, time::Duration};

use crate::{clock::Instant, transport::TransportError};

/// The number of a caller; callers that come later have higher ones.
pub(crate) type CallerId = u64;

/// What a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Permits of a semaphore, once there are enough.
    Take(NonZeroU32),
    /// To be told once the latch is open.
    Open,
    Give(NonZeroU32),
    CountDown,
    SetIfAbsent(u32),
    Add(i32),
    Drain,
    Delete,
}

impl Work {
    /// The word that spans show.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Work::Take(_) => "acquire",
            Work::Open => "wait",
            Work::Give(_) => "release",
            Work::CountDown => "count_down",
            Work::SetIfAbsent(_) => "set",
            Work::Add(_) => "add",
            Work::Drain => "drain",
            Work::Delete => "delete",
        }
    }
}

/// How long a caller waits for permits, or for a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the first definite answer.
    Try,
    /// Until this moment; `None`: without limit.
    Wait(Option<Instant>),
}

/// A caller with its work.
#[derive(Clone, Debug)]
pub(crate) struct Caller<R> {
    pub(crate) id: CallerId,
    pub(crate) work: Work,
    pub(crate) patience: Patience,
    pub(crate) joined: Instant,
    pub(crate) reply_to: R,
}

/// What a caller is told.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The work is done. `left`: what the counter shows after it.
    Done { result: i64, left: i64 },
    /// The caller only tried, and there are not enough permits.
    Short,
    /// The wait is over, and a server said since the call that there are not enough permits, or that the latch is closed.
    TimedOut,
    /// No definite answer. The work is not done and will not be.
    Unavailable { after: Duration, last_error: Option<TransportError> },
    /// No definite answer. The work may be done, or may be done later.
    Unknown { last_error: Option<TransportError> },
    /// The server refuses the work. It is not done.
    Refused(TransportError),
}

/// A caller that leaves the entry, and what it is told.
#[derive(Clone, Debug)]
pub(crate) struct Leaving<R> {
    pub(crate) work: Work,
    pub(crate) outcome: Outcome,
    pub(crate) reply_to: R,
}
