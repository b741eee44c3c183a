use std::time::Duration;

use super::LockClass;
use crate::{
    fencing::FencingToken,
    lease::state::LossReason,
    transport::{ErrorKind, TransportError},
};

/// Receives every event of an engine. All methods have empty bodies, so a recorder implements the methods that it
/// needs. [`EngineBuilder::recorder`](crate::EngineBuilder::recorder) installs it.
///
/// **Where it is called.** The engine calls the recorder on one thread of its own, `leasehold-recorder`, one event
/// after the other, in the order in which the events happened on each thread, usually within 5 ms. So a slow recorder
/// delays no lease and no caller. An engine [on the caller's runtime](crate::EngineBuilder::on_current_runtime) calls
/// the recorder in place, where each event happens, so that tests with paused time are exact. There a recorder that
/// blocks also blocks that runtime.
///
/// **What it may miss.** At most [`EVENTS_MAX`](super::EVENTS_MAX) events wait for the recorder. Further events are
/// dropped and counted in [`Snapshot::events_dropped`](crate::Snapshot::events_dropped). The engine's own
/// [`Metrics`](crate::Metrics), [`Snapshot`](crate::Snapshot) and [`Losses`](crate::Losses) are counted in place and
/// miss nothing.
///
/// **A panic** of the recorder ends with the event. The engine does not call the recorder again, because its numbers
/// may be half changed. [`Snapshot::recorder_panicked`](crate::Snapshot::recorder_panicked) and one log line say so,
/// and all later events count as dropped. The engine goes on.
///
/// [`Engine::shutdown`](crate::Engine::shutdown) waits, for at most 1 s of its limit, until the recorder has been told
/// every event. The thread ends, and drops the recorder, when the engine's last handle is gone and no event waits.
///
/// Two sums hold whenever no call is under way. Every wait that started has ended in one way, or goes on: started =
/// granted + shared + refused + timed out + failed + cancelled + waiting. And every lease that was granted is released
/// (whatever the answer), lost, or held.
///
/// # Examples
/// ```
/// use std::{sync::atomic::{AtomicU64, Ordering}, time::Duration};
/// use leasehold::{LockClass, Recorder};
///
/// #[derive(Default)]
/// struct SlowGrants(AtomicU64);
///
/// impl Recorder for SlowGrants {
///     fn granted(&self, _class: &LockClass, waited: Duration, _contended: bool) {
///         if waited > Duration::from_millis(100) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Recorder: Send + Sync + 'static {
    /// A caller asked for a lock. A call with values that cannot be used, and a call after a shutdown, is no wait.
    fn wait_started(&self, class: &LockClass) {}
    /// A caller got its lease.
    fn granted(&self, class: &LockClass, waited: Duration, contended: bool) {}
    /// A caller got a further lease on a hold of its re-entry scope.
    fn shared(&self, class: &LockClass) {}
    /// `try_acquire` found the lock held.
    fn refused(&self, class: &LockClass) {}
    /// A caller's wait ended, and the lock was known to be held since the call.
    fn timed_out(&self, class: &LockClass, waited: Duration) {}
    /// A caller failed in another way, also one whose wait ended without a definite answer.
    fn failed(&self, class: &LockClass, last_error: Option<&TransportError>) {}
    /// A caller was dropped before it had its answer.
    fn cancelled(&self, class: &LockClass) {}
    /// A grant found no caller and was released. It does not count as a granted lease.
    fn grant_without_caller(&self) {}
    /// The engine asked a server for a lock, or would have asked if the server could be reached.
    fn asked(&self, class: &LockClass, ask: &Ask<'_>) {}
    /// A release, or a batch of renewals, was answered or given up.
    fn answered(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {}
    /// A lease was released, with the outcome.
    fn released(&self, class: &LockClass, held: Duration, outcome: ReleaseOutcome) {}
    /// A lease was lost. `late`: if its deadline ended the lease, how long after the deadline the engine noticed it.
    fn lost(
        &self,
        class: &LockClass,
        reason: LossReason,
        token: FencingToken,
        held: Duration,
        late: Option<Duration>,
    ) {
    }
    /// A lease got into jeopardy: a renewal was not confirmed.
    fn jeopardy(&self, class: &LockClass) {}
    /// A renewal batch was answered or given up. `answered`: at least one member of the batch was answered.
    fn renewed(&self, members: usize, took: Duration, answered: bool) {}
    /// `count` renewals of one batch had this outcome.
    fn renewal(&self, class: &LockClass, outcome: RenewalOutcome, count: u64) {}
    /// A renewal was confirmed when this share of the ttl was left to the deadline.
    fn margin_left(&self, class: &LockClass, share: f64) {}
    /// How long after its due time the first renewal of a batch was sent.
    fn renewal_late(&self, late: Duration) {}
    /// A renewal found an impossible ttl on the server: the server's clock stepped, or another client changed the lock.
    fn found_ttl(&self, class: &LockClass, found: Duration, least: Duration, most: Duration) {}
    /// A lock of another client has no expiry.
    fn no_expiry(&self) {}
    /// Notices of a lock that a caller waits for may have been missed.
    fn subscription_gap(&self) {}
    /// A node was connected or disconnected, as the engine's lane for renewals sees it. Nodes without slots count too.
    /// A node that leaves the topology is reported as disconnected once.
    fn node_changed(&self, address: &str, connected: bool) {}
    /// The same node is connected again.
    fn reconnected(&self, address: &str) {}
    /// The engine begins to close an owner in the background, or has closed it.
    fn closing(&self, begins: bool) {}
    /// How late a timer of one of the engine's threads fired. About twenty times a second for each thread.
    fn timer_late(&self, thread: EngineThread, late: Duration) {}
}

/// One acquire command.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// Why the engine sent it.
    pub cause: AskCause,
    /// The time from the send to the answer.
    pub took: Duration,
    /// The answer.
    pub answer: Result<AskAnswer, &'a TransportError>,
    /// The time since the notice that led to it. `None`: no notice led to it.
    pub since_notice: Option<Duration>,
}

/// Why the engine asks a server for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskCause {
    /// A caller came, and the state of the lock was not known.
    Arrival,
    /// A notice came.
    Notice,
    /// The engine has just released the lock itself, or its pause for other processes is over.
    Turn,
    /// The time that was left on the server is over.
    Expiry,
    /// A notice may have been lost.
    SafetyPoll,
    /// The subscription was not in force for a while.
    Resync,
    /// The last command was not answered, or was refused for the moment.
    Retry,
}

/// A definite answer to an acquire command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskAnswer {
    /// The engine holds the lock.
    Granted,
    /// Another owner holds the lock.
    Held,
    /// The command reached the server after its latest execution time, and was not executed.
    TooLate,
}

/// What a server was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Acquire a lock.
    Acquire,
    /// Release a lock.
    Release,
    /// Renew a batch of leases.
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

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The lock was held to the end.
    Released,
    /// The lock was held to the end, and its lease was dropped.
    Dropped,
    /// The server did not know the lease as the holder.
    AlreadyLost,
    /// Only a repeat was answered, and the lease was not the holder any more: an earlier send released it, or it was
    /// lost before.
    ReleasedOrLost,
    /// No answer in time.
    Unknown,
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewalOutcome {
    /// The server confirmed it.
    Renewed,
    /// The lease is not the holder of the lock.
    NotOurs,
    /// The renewal reached the server after its latest execution time.
    TooLate,
    /// No answer, or a refusal for the moment.
    Failed(ErrorKind),
}
