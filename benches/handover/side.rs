//! What a side of a hand-over is, and what it can be told.

use std::fmt;

use rustix::time::{ClockId, clock_gettime};

/// What both processes of a contestant are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An engine with a thread of its own for its calls, which is the default.
    Shipped,
    /// An engine whose calls run on the callers' runtime.
    OnCallers,
    /// Blocking sockets, without an engine.
    Raw,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Shipped, Self::OnCallers, Self::Raw];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shipped => "redis",
            Self::OnCallers => "redis, calls on the callers' runtime",
            Self::Raw => "raw",
        })
    }
}

/// What a side does when it is told.
pub(super) trait Acts {
    /// Waits for the lock.
    fn acquire(&mut self) -> Acquired;

    /// When `release()` was called. Returns once the server has confirmed it.
    fn release(&mut self) -> u64;
}

pub(super) struct Acquired {
    pub(super) at: u64,
    /// Acquire commands that were sent for it.
    pub(super) asks: u64,
}

/// In nanoseconds, of the clock that all processes of the machine share.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(super) const NAME: &str = "handed over";
pub(super) const READY: &str = "ready";
pub(super) const ACQUIRE: &str = "acquire";
pub(super) const RELEASE: &str = "release";
