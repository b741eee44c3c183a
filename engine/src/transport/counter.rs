use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{Kinds, ServerTime};
use crate::{
    clock::Instant,
    key::{Family, LockKey},
};

/// One operation on a counter. Repeating it with the same number is safe: each number of a client counts once.
///
/// # The contract
///
/// Beside each counter the server keeps, for each client that used it lately, the number and the result of that
/// client's last writing operation, for at least `remember`. One atomic step does all of this:
/// 1. Past `execute_by`, or below the remembered number: nothing is done, [`CounterReply::TooLate`].
/// 2. Equal to the remembered number: nothing is done and nobody is notified. The answer has the remembered result.
/// 3. Otherwise the operation is done, its number and result are remembered, and the watchers are notified: of a
///    semaphore if permits became free, of a latch if it has just reached zero, was set, or was deleted.
///
/// The engine sends a client's next number for a key only after the earlier one is settled.
#[derive(Clone, Debug)]
pub struct CounterCall {
    /// The name of the counter.
    pub key: Arc<LockKey>,
    /// What the counter is.
    pub counter: Counter,
    /// The engine that asks.
    pub client: Uuid,
    /// Rises with each writing operation of this client on this key; below 2^53. A read has 0.
    pub number: u64,
    /// What to do.
    pub op: CounterOp,
    /// The latest moment of execution, on the engine's clock.
    pub execute_by: Instant,
    /// For how long the server remembers the number and the result.
    pub remember: Duration,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// The available permits of a semaphore. A semaphore that does not exist has none.
    Semaphore,
    /// What is left to count down of a latch. A latch that does not exist is open.
    Latch,
    /// The available permits of a semaphore whose permits expire; their holds are
    /// [`HoldKind::Permits`](super::HoldKind::Permits) of the same name. Only `SetIfAbsent`, `Add` and `Read` are used.
    /// A read counts expired permits as available.
    PermitTotal,
}

/// What is done with a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterOp {
    /// Semaphore. Takes the permits of the longest prefix of these callers that fits. Result: the sum taken.
    Take(Vec<NonZeroU32>),
    /// Semaphore. Adds permits; makes the semaphore if it does not exist. Works when the server is out of memory.
    /// Result: the permits added.
    Give(NonZeroU32),
    /// Sets the number if the counter does not exist. Result: 1 if it was set.
    SetIfAbsent(u32),
    /// Semaphore. Adds this to the available permits, which may become negative. Result: the new number.
    Add(i32),
    /// Semaphore. Takes all available permits. Result: the permits taken.
    Drain,
    /// Latch. Counts down by at most what is left, and deletes the latch at zero. Works when the server is out of
    /// memory. Result: how much was counted.
    CountDown(NonZeroU32),
    /// Latch. Deletes it. Result: 1 if it existed.
    Delete,
    /// Semaphore. Settles an earlier `Take` or `Drain` of this client that nobody wants any more: gives its permits
    /// back if it was done, and keeps it from ever being done otherwise. Result: the permits given back.
    Void {
        /// The number of that operation.
        number: u64,
    },
    /// Reads the number. Result: the number.
    Read,
}

/// A definite answer to an operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterReply {
    /// The operation was done, now or when the same number arrived before.
    Done {
        /// The result, see [`CounterOp`].
        result: i64,
        /// The number that the counter has now; 0 if it does not exist.
        left: i64,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// Not executed: the request arrived after `execute_by`, or after a later number of this client.
    TooLate {
        /// The server time of the answer.
        at: ServerTime,
    },
}

impl Counter {
    /// The primitive that a transport needs to keep for this counter.
    pub const fn kind(self) -> Kinds {
        match self {
            Counter::Semaphore => Kinds::SEMAPHORE,
            Counter::Latch => Kinds::LATCH,
            Counter::PermitTotal => Kinds::PERMITS,
        }
    }

    /// The family of the counter's key.
    pub const fn family(self) -> Family {
        match self {
            Counter::Semaphore | Counter::Latch => Family::Exclusive,
            Counter::PermitTotal => Family::Permits,
        }
    }

    /// A short fixed word, for metrics and errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Counter::Semaphore => "semaphore",
            Counter::Latch => "latch",
            Counter::PermitTotal => "permits",
        }
    }
}

impl CounterReply {
    /// The server time of the answer.
    pub const fn at(self) -> ServerTime {
        match self {
            CounterReply::Done { at, .. } | CounterReply::TooLate { at } => at,
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
