use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    Acquire, AcquireReply, AuditContext, Finding, Inspection, LaneStats, Release, ReleaseReply, Renewal,
    TransportError, Watch,
};
use crate::{
    clock::Clock,
    key::LockKey,
    routing::topology::{NodeId, Topology},
};

/// A boxed future that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One kind of server, with its configuration. Opens lanes; holds no connection itself.
pub trait Transport: Send + Sync + 'static {
    /// Fixed facts about this kind of server.
    fn capabilities(&self) -> Capabilities;

    /// Opens a lane on the runtime that polls the future. Resolves when every node that must be there has been
    /// reached and checked; fails at the first node that cannot be reached or refuses. The engine asks again.
    ///
    /// # Errors
    /// `Effect` is always `None`. `ErrorKind::is_final` tells whether asking again is of use.
    fn open(&self, lane: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>>;
}

/// A path to the servers with connections of its own, living on the runtime that opened it. It reconnects by itself
/// until it is dropped. The engine opens one for calls and one for renewals.
pub trait Lane: Send + Sync + 'static {
    /// The nodes, and which slots they serve. Published anew before a changed node is used.
    fn topology(&self) -> watch::Receiver<Arc<Topology>>;

    /// Asks for the lock. See [`AcquireReply`].
    fn acquire(&self, request: Acquire) -> BoxFuture<'_, Result<AcquireReply, TransportError>>;

    /// Gives the lock back, if the owner has it, and tells those who watch the key.
    fn release(&self, request: Release) -> BoxFuture<'_, Result<ReleaseReply, TransportError>>;

    /// Renews many leases of one node at once: at least `ttl` from now on, never less than is left.
    /// Returns the same members in any order, each with its answer; never fewer.
    fn renew(&self, node: NodeId, batch: Vec<Renewal>) -> BoxFuture<'_, Vec<Renewal>>;

    /// Watches for the end of holds on `key`. Dropping the [`Watch`] ends the interest.
    fn watch(&self, key: &Arc<LockKey>) -> Watch;

    /// Reads who holds the lock, whoever it is.
    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>>;

    /// Ends whatever hold there is and tells those who watch. `true` if there was one.
    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>>;

    /// Looks at everything about the servers that decides what may be promised. Asks them more than usual, changes
    /// nothing, and takes a few command timeouts at most. What cannot be looked at is a finding too.
    /// A transport without anything to look at finds nothing.
    fn audit(&self, _terms: AuditContext) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What it knows of its servers and the engine does not, from memory: it neither asks nor waits. A transport that is
    /// never sent elsewhere and reads no foreign clock knows nothing.
    fn stats(&self) -> LaneStats {
        LaneStats::default()
    }
}

/// What a lane is for. Lanes of different purposes share no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LanePurpose {
    /// Acquires, releases, notices, inspection.
    Calls,
    /// Renewals only.
    Renewals,
}

/// What a transport is told when it opens a lane.
#[derive(Clone, Copy, Debug)]
pub struct OpenLane {
    /// What the lane is for.
    pub purpose: LanePurpose,
    /// The engine's clock, on which `execute_by` is given.
    pub clock: Clock,
    /// The longest a request without `execute_by` (release, inspect, force_release) and each step of connecting
    /// may stay unanswered.
    pub command_timeout: Duration,
}

/// Fixed facts about a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name, for metrics and errors: `memory`, `redis`.
    pub name: &'static str,
    /// Whether it can tell that a hold has ended. Where not, waiting callers poll.
    pub notices: bool,
    /// Whether it can tell since when a server is up. Where not, `restart_grace` is refused.
    pub uptime: bool,
    /// The longest ttl it can keep.
    pub ttl_max: Duration,
}
