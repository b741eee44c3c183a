//! The events that a [`Recorder`](super::Recorder) receives.

use std::time::Duration;

use super::{Composition, CompositionOutcome, JobEnd, LockLabels, TermEnd};
use crate::{
    fencing::FencingToken,
    lease::state::LossReason,
    transport::{Counter, ErrorKind, TransportError},
};

/// One event of an engine.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An event of one lock, with its class and its kind.
    Lock(LockLabels<'a>, LockEvent<'a>),
    /// An event that belongs to no single lock.
    Engine(EngineEvent<'a>),
}

/// An event of one lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// A caller began to wait for a lock. A call with invalid arguments, or after a shutdown, does not count.
    WaitStarted,
    /// A caller got its lease.
    #[non_exhaustive]
    Granted {
        /// From the acquire call to its lease.
        waited: Duration,
        /// The first ask did not get the lock.
        contended: bool,
    },
    /// A caller got a further lease on a hold of its re-entry scope.
    Shared,
    /// `try_acquire` found the lock held.
    Refused,
    /// The wait of a caller ended, and the lock was known to be held since the caller came.
    #[non_exhaustive]
    TimedOut {
        /// From the acquire call to the end of the wait.
        waited: Duration,
    },
    /// An acquire failed for another reason, or its wait ended without a definite answer of a server.
    #[non_exhaustive]
    Failed {
        /// The last error of the transport, if there was one.
        last_error: Option<&'a TransportError>,
    },
    /// A caller was dropped before it had its answer.
    Cancelled,
    /// A server was asked for a lock, or would have been asked if a connection stood.
    Asked(Ask<'a>),
    /// A lease was released.
    #[non_exhaustive]
    Released {
        /// From the grant to the release.
        held: Duration,
        /// The answer of the server.
        outcome: ReleaseOutcome,
    },
    /// A lease was lost.
    #[non_exhaustive]
    Lost {
        /// Why.
        reason: LossReason,
        /// The fencing token of the lease.
        token: FencingToken,
        /// From the grant to the loss.
        held: Duration,
        /// From the deadline of the lease to the moment the engine noticed; `None` unless the deadline ended the lease.
        late: Option<Duration>,
    },
    /// A lease got into jeopardy.
    Jeopardy,
    /// Renewals of one batch had this outcome.
    #[non_exhaustive]
    Renewal {
        /// Their outcome.
        outcome: RenewalOutcome,
        /// The number of renewals with this outcome.
        count: u64,
    },
    /// A renewal was confirmed.
    #[non_exhaustive]
    MarginLeft {
        /// The share of the ttl that was left to the deadline, from 0 to 1.
        share: f64,
    },
    /// A renewal found a remaining ttl that is not possible: the server's clock stepped, or another client changed the
    /// lock.
    #[non_exhaustive]
    FoundTtl {
        /// The remaining ttl that the server told.
        found: Duration,
        /// The shortest one that is possible.
        least: Duration,
        /// The longest one that is possible.
        most: Duration,
    },
    /// A candidate of a [`Leader`](crate::Leader) began a term. The lock is that of the election.
    TermBegan,
    /// A term of a [`Leader`](crate::Leader) ended.
    #[non_exhaustive]
    TermEnded {
        /// How.
        end: TermEnd,
        /// From the begin of the term to its end.
        led: Duration,
    },
    /// A try to run a [`Job`](crate::Job) ended. The lock is that of the job.
    #[non_exhaustive]
    JobEnded {
        /// How.
        end: JobEnd,
    },
}

/// An event that belongs to no single lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EngineEvent<'a> {
    /// A grant found no waiting caller and was given back. It counts as no granted lease.
    GrantWithoutCaller,
    /// A release, a batch of renewals or of beats, or an operation on a counter was answered, or given up.
    #[non_exhaustive]
    Answered {
        /// What the server was asked for.
        operation: Operation,
        /// From the sending to the answer.
        took: Duration,
        /// The error, unless the answer was definite.
        last_error: Option<&'a TransportError>,
    },
    /// A batch of renewals was answered, or given up.
    #[non_exhaustive]
    RenewalBatch {
        /// The number of leases in the batch.
        members: usize,
        /// From the sending to the answer.
        took: Duration,
        /// At least one member was answered.
        answered: bool,
    },
    /// A batch of renewals was sent.
    #[non_exhaustive]
    RenewalLate {
        /// How late the batch was sent, by the member that was due first.
        late: Duration,
    },
    /// A call on a semaphore, a latch or a total of permits ended.
    #[non_exhaustive]
    CounterCall {
        /// What was called.
        counter: Counter,
        /// How the call ended.
        outcome: CountOutcome,
        /// From the call to its end.
        waited: Duration,
    },
    /// Acquires and releases of exclusive locks were sent together.
    #[non_exhaustive]
    GroupCommit {
        /// How many.
        calls: usize,
    },
    /// A lock of another client has no expiry.
    NoExpiry,
    /// Notices of a lock with waiting callers may have been missed.
    SubscriptionGap,
    /// The server did not know the place of a waiting caller in the line of a fair lock any more. The caller has a new
    /// place at the end of the line.
    PlaceLost,
    /// A node was connected or disconnected, as the engine's lane for renewals sees it; nodes without slots included. A
    /// node that leaves the topology is told as disconnected, once.
    #[non_exhaustive]
    NodeChanged {
        /// The address of the node.
        address: &'a str,
        /// The node is connected now.
        connected: bool,
    },
    /// A node that was disconnected is connected again.
    #[non_exhaustive]
    Reconnected {
        /// The address of the node.
        address: &'a str,
    },
    /// An acquire of a composition ended. Its members have events of their own.
    #[non_exhaustive]
    CompositionEnded {
        /// The kind of the composition.
        composition: Composition,
        /// How the acquire ended.
        outcome: CompositionOutcome,
    },
    /// The background release of an owner began or ended.
    #[non_exhaustive]
    Closing {
        /// `true`: it began.
        begins: bool,
    },
    /// A timer of an engine thread fired. About twenty times a second from each thread.
    #[non_exhaustive]
    TimerLate {
        /// The thread.
        thread: EngineThread,
        /// How late the timer fired.
        late: Duration,
    },
}

/// One request to a server for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// Why the engine asked.
    pub cause: AskCause,
    /// From the sending to the answer.
    pub took: Duration,
    /// The answer.
    pub answer: Result<AskAnswer, &'a TransportError>,
    /// From the notice that caused this ask to the answer; `None` for other causes.
    pub since_notice: Option<Duration>,
}

/// Why a server is asked for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskCause {
    /// A caller came and the engine knew nothing about the lock.
    Arrival,
    /// A notice said that the lock was released.
    Notice,
    /// This engine released the lock just before, or yielded to other processes and its turn came.
    Turn,
    /// The remaining ttl of the holder has passed.
    Expiry,
    /// A notice may have been lost.
    SafetyPoll,
    /// The lock was held at the last poll, and the caller polls: it wants a spin lock.
    Poll,
    /// The subscription was interrupted.
    Resync,
    /// The last ask had no answer, or the server could not serve it at that moment.
    Retry,
}

/// A definite answer to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskAnswer {
    /// This engine holds the lock.
    Granted,
    /// Another owner holds the lock.
    Held,
    /// The ask reached the server after its latest execution time and was not executed.
    TooLate,
}

/// What a server was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// To grant a lock.
    Acquire,
    /// To release a lock.
    Release,
    /// To renew leases.
    Renew,
    /// To do an operation on a semaphore, a latch or a total of permits.
    Count,
    /// To keep the places of waiting callers in the line of a fair lock.
    Beat,
}

/// One of the engine's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EngineThread {
    /// The thread of acquires, releases and notices.
    Calls,
    /// The thread of renewals.
    Renewal,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The owner held the lock to the end and called release.
    Released,
    /// The owner held the lock to the end and dropped the lease.
    Dropped,
    /// The owner gave the lock back, or dropped the lease, and the next caller of the same engine got it without a
    /// command.
    HandedOff,
    /// The server did not know the owner as holder.
    AlreadyLost,
    /// Only a repeated release was answered, and the owner did not hold the lock any more: an earlier send released it,
    /// or the lease was lost before.
    ReleasedOrLost,
    /// No answer in time.
    Unknown,
}

/// How a call on a semaphore, a latch or a total of permits ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CountOutcome {
    /// It was done.
    Done,
    /// `try_acquire` found too few permits.
    Busy,
    /// The wait ended, and there were too few permits, or the latch was closed.
    TimedOut,
    /// No definite answer, a refusal or the end of the engine. It did not count.
    Failed,
    /// No definite answer. It may have counted.
    Unknown,
    /// The future of the call was dropped.
    Cancelled,
}

impl CountOutcome {
    /// The word that metrics and spans show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CountOutcome::Done => "done",
            CountOutcome::Busy => "busy",
            CountOutcome::TimedOut => "timeout",
            CountOutcome::Cancelled => "cancelled",
            CountOutcome::Unknown => "unknown",
            CountOutcome::Failed => "error",
        }
    }
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// The server confirmed the renewal.
    Renewed,
    /// The server does not know the owner as holder.
    NotOurs,
    /// The renewal reached the server after its latest execution time.
    TooLate,
    /// No answer, or the server could not serve the request at that moment.
    Failed(ErrorKind),
}
