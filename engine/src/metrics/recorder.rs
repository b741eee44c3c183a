use std::time::Duration;

use super::LockClass;
use crate::{
    fencing::FencingToken,
    lease::state::LossReason,
    transport::{ErrorKind, TransportError},
};

/// Hears of every event. All methods have empty bodies, so a recorder implements what it counts.
///
/// **Where it is called.** On one thread of its own, `leasehold-recorder`, one event after the other, in the order in which
/// they happened on each thread, usually within 5 ms. So a recorder that blocks or is slow delays no lease and no caller.
/// An engine [on the caller's runtime](crate::EngineBuilder::on_current_runtime) calls it in place, where each event
/// happens, so that tests with paused time are exact; there a recorder that blocks, blocks that runtime.
///
/// **What it may miss.** [`EVENTS_MAX`](super::EVENTS_MAX) events wait for it at most; what comes while so many wait is
/// dropped and counted in [`Snapshot::events_dropped`](crate::Snapshot::events_dropped). The engine's own
/// [`Metrics`](crate::Metrics), [`Snapshot`](crate::Snapshot) and [`Losses`](crate::Losses) are counted in place and miss
/// nothing.
///
/// **A panic** ends at the event. The recorder is not called again: its numbers may be half changed.
/// [`Snapshot::recorder_panicked`](crate::Snapshot::recorder_panicked) tells so, one log line does, and all later events
/// count as dropped. The engine goes on.
///
/// [`Engine::shutdown`](crate::Engine::shutdown) waits for up to 1 s of its limit until the recorder has been told
/// everything. The thread ends, and drops the recorder, when the engine's last handle is gone and no event waits.
///
/// Two sums hold whenever nothing is under way. Every wait that started ended in one way or goes on: started = granted +
/// shared + refused + timed out + failed + cancelled + waiting. And every lease that was granted is released, whatever
/// the answer, lost, or held.
#[allow(unused_variables)]
pub trait Recorder: Send + Sync + 'static {
    /// Somebody asked for a lock. Calls whose arguments cannot be used, and calls after a shutdown, are none.
    fn wait_started(&self, class: &LockClass) {}
    /// A caller got its lease.
    fn granted(&self, class: &LockClass, waited: Duration, contended: bool) {}
    /// A caller got a further lease on a hold of its scope.
    fn shared(&self, class: &LockClass) {}
    /// A caller that only tried was told that the lock is held.
    fn refused(&self, class: &LockClass) {}
    /// A caller's wait was over, and the lock was known to be held since it came.
    fn timed_out(&self, class: &LockClass, waited: Duration) {}
    /// A caller failed otherwise; also one whose wait was over without a definite answer.
    fn failed(&self, class: &LockClass, last_error: Option<&TransportError>) {}
    /// A caller was dropped before it had its answer.
    fn cancelled(&self, class: &LockClass) {}
    /// A grant found no caller and was given back. It is no lease that was granted.
    fn grant_without_caller(&self) {}
    /// A server was asked for a lock, or would have been if it could be reached.
    fn asked(&self, class: &LockClass, ask: &Ask<'_>) {}
    /// A release, or a batch of renewals, was answered or given up.
    fn answered(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {}
    /// A lease was released, and what came of it.
    fn released(&self, class: &LockClass, held: Duration, outcome: ReleaseOutcome) {}
    /// A lease was lost. `late`: how long after its deadline that was noticed, if its deadline ended it.
    fn lost(
        &self,
        class: &LockClass,
        reason: LossReason,
        token: FencingToken,
        held: Duration,
        late: Option<Duration>,
    ) {
    }
    /// A lease is in jeopardy.
    fn jeopardy(&self, class: &LockClass) {}
    /// A renewal batch was answered or given up. `answered`: at least one of its members was.
    fn renewed(&self, members: usize, took: Duration, answered: bool) {}
    /// What came of so many renewals of one batch.
    fn renewal(&self, class: &LockClass, outcome: RenewalOutcome, count: u64) {}
    /// A renewal was confirmed with this share of its ttl left to the deadline.
    fn margin_left(&self, class: &LockClass, share: f64) {}
    /// How late the renewal that was due first of a batch went out.
    fn renewal_late(&self, late: Duration) {}
    /// A renewal found a ttl that cannot be: the server's clock stepped, or a foreign hand touched the lock.
    fn found_ttl(&self, class: &LockClass, found: Duration, least: Duration, most: Duration) {}
    /// A peer's lock has no expiry.
    fn no_expiry(&self) {}
    /// Notices of a lock that somebody waits for may have been missed.
    fn subscription_gap(&self) {}
    /// A node is connected or not, as the engine's lane for renewals sees it, also one that serves no slot. A node that
    /// leaves the topology is not connected any more; that is told once.
    fn node_changed(&self, address: &str, connected: bool) {}
    /// The same node is connected again.
    fn reconnected(&self, address: &str) {}
    /// An owner is being closed in the background, or has been closed.
    fn closing(&self, begins: bool) {}
    /// How late a timer of one of the engine's threads fired. About twenty times a second from each.
    fn timer_late(&self, thread: EngineThread, late: Duration) {}
}

/// One ask of a server for a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// What led to it.
    pub cause: AskCause,
    /// From sending it to its answer.
    pub took: Duration,
    /// What came of it.
    pub answer: Result<AskAnswer, &'a TransportError>,
    /// Since when the notice was known that led to it, if one did.
    pub since_notice: Option<Duration>,
}

/// Why a server is asked for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskCause {
    /// Somebody came and nothing was known.
    Arrival,
    /// A notice came.
    Notice,
    /// Right behind a release of our own, or after standing back.
    Turn,
    /// The time that was left on the server is over.
    Expiry,
    /// A message may have been lost.
    SafetyPoll,
    /// The subscription was not in force for a while.
    Resync,
    /// The last ask was not answered, or refused for the moment.
    Retry,
}

/// A definite answer to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskAnswer {
    /// The lock is ours.
    Granted,
    /// Somebody has it.
    Held,
    /// The ask reached the server too late and was not executed.
    TooLate,
}

/// What a server was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// To give a lock.
    Acquire,
    /// To take one back.
    Release,
    /// To keep some for longer.
    Renew,
}

/// One of the engine's two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EngineThread {
    /// Acquires, releases, notices.
    Calls,
    /// Renewals.
    Renewal,
}

/// What came of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// It was ours to the end.
    Released,
    /// The same, and it was released by dropping it.
    Dropped,
    /// The server did not know it as ours.
    AlreadyLost,
    /// Only a repeat was answered, and it was not ours any more: released by an earlier send, or lost before it.
    ReleasedOrLost,
    /// No answer in time.
    Unknown,
}

/// What came of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// Confirmed.
    Renewed,
    /// The lock is not ours.
    NotOurs,
    /// It came after its latest execution time.
    TooLate,
    /// No answer, or a refusal for the moment.
    Failed(ErrorKind),
}
