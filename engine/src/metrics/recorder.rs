use std::time::Duration;

use crate::{fencing::FencingToken, lease::state::LossReason, transport::TransportError};

/// Hears of every event. All methods have empty bodies, so a recorder implements what it counts. They are called on the
/// engine's threads and must not block.
#[allow(unused_variables)]
pub trait Recorder: Send + Sync + 'static {
    /// A caller was queued.
    fn wait_started(&self) {}
    /// A caller got its lease.
    fn granted(&self, waited: Duration, contended: bool) {}
    /// A caller that only tried was told that the lock is held.
    fn refused(&self) {}
    /// A caller's wait was over.
    fn timed_out(&self, waited: Duration) {}
    /// A caller failed otherwise.
    fn failed(&self, trouble: Option<&TransportError>) {}
    /// A caller was dropped while it was queued.
    fn cancelled(&self) {}
    /// A grant found no caller and was given back.
    fn grant_without_caller(&self) {}
    /// An ask was answered.
    fn asked(&self, took: Duration) {}
    /// A request of any kind got no definite answer.
    fn unanswered(&self, operation: &'static str, trouble: &TransportError) {}
    /// A hold of our own was released, and what came of it.
    fn released(&self, held: Duration, outcome: ReleaseOutcome) {}
    /// A lease was lost.
    fn lost(&self, reason: LossReason, token: FencingToken, held: Duration) {}
    /// A lease is in jeopardy.
    fn jeopardy(&self) {}
    /// A renewal batch was answered or given up.
    fn renewed(&self, members: usize, took: Duration) {}
    /// What came of so many renewals of one batch.
    fn renewal(&self, outcome: RenewalOutcome, count: u64) {}
    /// A renewal found a ttl that cannot be: the server's clock stepped, or a foreign hand touched the lock.
    fn found_ttl(&self, found: Duration, least: Duration, most: Duration) {}
    /// A peer's lock has no expiry.
    fn no_expiry(&self) {}
    /// A node is connected or not, as the engine's lane for renewals sees it, also one that serves no slot. A node that
    /// leaves the topology is not connected any more; that is told once.
    fn node_changed(&self, address: &str, connected: bool) {}
    /// An owner is being closed in the background, or has been closed.
    fn closing(&self, begins: bool) {}
}

/// What came of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseOutcome {
    /// It was ours to the end.
    Released,
    /// The server did not know it as ours.
    AlreadyLost,
    /// Only a repeat was answered, and it was not ours any more: released by an earlier send, or lost before it.
    ReleasedOrLost,
    /// No answer in time.
    Unknown,
}

/// What came of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewalOutcome {
    /// Confirmed.
    Renewed,
    /// The lock is not ours.
    NotOurs,
    /// It came after its latest execution time.
    TooLate,
    /// No answer, or a refusal for the moment.
    Failed,
}
