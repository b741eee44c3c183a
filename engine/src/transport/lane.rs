use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::watch;
use uuid::Uuid;

use super::{
    AnswerTo, AnswersTo, AuditContext, Call, Counter, CounterCall, CounterReply, ErrorKind, Finding,
    Inspection, Kinds, LaneStats, Outcome, TransportError, Watch, WatchState,
};
use crate::{
    clock::Clock,
    key::LockKey,
    label::EngineLabel,
    owner::Owner,
    routing::topology::{NodeId, Topology},
};

/// A boxed future that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One kind of server, with its configuration. A transport opens lanes and holds no connection itself.
pub trait Transport: Send + Sync + 'static {
    /// Fixed facts about this kind of server.
    fn capabilities(&self) -> Capabilities;

    /// Opens a lane on the runtime that polls the future. Resolves when every required node has been reached and
    /// checked. Fails at the first node that cannot be reached or refuses the client; the engine then calls `open`
    /// again.
    ///
    /// # Errors
    /// The error's `Effect` is always `None`. `ErrorKind::is_final` tells whether another attempt is useless.
    fn open(&self, lane: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>>;
}

/// A path to the servers with its own connections, which live on the runtime that opened the lane. A lane reconnects by
/// itself until it is dropped. The engine opens one lane for calls and one for renewals.
pub trait Lane: Send + Sync + 'static {
    /// The nodes, and the slots that each node serves. A changed topology is published before a changed node is used.
    fn topology(&self) -> watch::Receiver<Arc<Topology>>;

    /// Sends one call to the node that serves its key, and returns the outcome. The call's own outcome is not read.
    fn call_one(&self, call: Call) -> BoxFuture<'_, Outcome>;

    /// Begins one call without a future, if the transport can do so now, and gives its outcome to `answer_to`: on any
    /// thread, by the call's `execute_by`. Everything else is as for [`call_one`](Self::call_one). It saves a task for each
    /// call. A transport that gets the replies to several calls at once gives their outcomes within
    /// [`give_together`](super::give_together). The outcome of a release may come before this method returns. The outcome of an acquire should not: a caller
    /// that acquires again and again would leave no turn to other clients.
    ///
    /// Returns both if the transport cannot. Nothing was sent then, and the engine makes the call with `call_one`. The
    /// default never can.
    fn begin(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        Some((call, answer_to))
    }

    /// Sends many calls to one node. Returns the same calls in any order, each with its outcome, and never fewer. A
    /// call whose key the node does not serve any more goes to the node that does, or fails.
    ///
    /// The default sends one call after the other with [`call_one`](Self::call_one).
    fn call(&self, _node: NodeId, batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        Box::pin(async move {
            let mut answered = Vec::with_capacity(batch.len());
            for call in batch {
                let outcome = self.call_one(call.clone()).await;
                answered.push(call.answered(outcome));
            }
            answered
        })
    }

    /// Begins such calls without a future, if the transport can do so now, and gives them with their outcomes to `answers_to`:
    /// all together, or some at a time, on any thread. Everything else is as for [`call`](Self::call). It saves a task, and
    /// most often a change of threads, for each group of calls. The outcomes may come before this method returns.
    ///
    /// Returns both if the transport cannot. Nothing was sent then, and the engine makes the calls with `call`. The default
    /// never can.
    fn begin_many(
        &self,
        _node: NodeId,
        batch: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        Some((batch, answers_to))
    }

    /// Watches for the end of holds on `key`. Dropping the [`Watch`] ends the watch.
    fn watch(&self, key: &Arc<LockKey>) -> Watch;

    /// Watches the place of `owner` in the line of a fair lock: a notice says that the lock is free and the place is the
    /// head. Dropping the [`Watch`] ends the watch. A transport without notices returns a watch that is never in force.
    fn watch_turn(&self, _key: &Arc<LockKey>, _owner: Owner) -> Watch {
        Watch::new(watch::channel(WatchState::default()).1, ())
    }

    /// Reads the holds of the lock, including holds of other clients.
    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>>;

    /// Ends any hold on the key and notifies its watchers. Returns `true` if there was a hold.
    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>>;

    /// Does an operation on a counter; see [`CounterCall`]. A transport without counters refuses it without effect.
    fn count(&self, call: CounterCall) -> BoxFuture<'_, Result<CounterReply, TransportError>> {
        let detail = format!("this transport keeps no {}", call.counter);
        let refused = TransportError::without_effect(ErrorKind::Misconfigured, None, detail);
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Watches the notices of a counter. Dropping the [`Watch`] ends the watch. A transport without notices returns a
    /// watch that is never in force.
    fn watch_counter(&self, _key: &Arc<LockKey>, _counter: Counter) -> Watch {
        Watch::new(watch::channel(WatchState::default()).1, ())
    }

    /// Checks every property of the servers on which the promises depend. An audit sends more commands than usual,
    /// changes nothing, and takes a few command timeouts at most. A property that cannot be checked is a finding too. A
    /// transport without anything to check returns no finding.
    fn audit(&self, _terms: AuditContext) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What the lane knows about its servers and the engine does not. Read from memory: the lane sends no command and
    /// does not wait. The statistics are empty for a transport that is never redirected and reads no server clock.
    fn stats(&self) -> LaneStats {
        LaneStats::default()
    }
}

/// The purpose of a lane. Lanes of different purposes share no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LanePurpose {
    /// Acquires, releases, notices, inspection.
    Calls,
    /// Renewals only.
    Renewals,
}

/// What a transport gets when it opens a lane.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpenLane {
    /// The purpose of the lane.
    pub purpose: LanePurpose,
    /// The engine's clock; `execute_by` is a moment on it.
    pub clock: Clock,
    /// The longest time that a request without `execute_by` (inspect, force_release) and each step of connecting may
    /// stay unanswered.
    pub command_timeout: Duration,
    /// The part that names the engine in all its owners, for what an operator sees of a connection. `None`: not known.
    pub client: Option<Uuid>,
    /// The label of the engine, for the same. `None`: not known.
    pub label: Option<EngineLabel>,
    /// Whether a connection of the lane may be read and written on a runtime of the callers while that runtime keeps up; see
    /// [`connections_follow_callers`](crate::EngineConfig::connections_follow_callers).
    pub follows_callers: bool,
    /// How long clients of other kinds wait for a silent place at the head of a fair lock's line; see
    /// [`fair_wait_ms`](crate::EngineConfig::fair_wait_ms).
    pub fair_wait: Duration,
}

/// Fixed facts about a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The transport's name, for metrics and errors: `memory`, `redis`.
    pub name: &'static str,
    /// Whether the transport can notify watchers that a hold has ended. If not, waiting callers poll.
    pub notices: bool,
    /// Whether the transport can tell how long a server has been up. If not, `restart_grace` is refused.
    pub uptime: bool,
    /// The longest ttl that the server can keep.
    pub ttl_max: Duration,
    /// The kinds of locks and counters that the transport can keep. The engine refuses a call of any other.
    pub kinds: Kinds,
    /// Whether [`Lane::call`] makes many acquires and releases of exclusive locks in less time than one after the other.
    /// Then the engine sends them together while a node has many calls to answer, to nodes that take calls of many slots
    /// together ([`Batching::AcrossSlots`](crate::routing::topology::Batching::AcrossSlots)).
    pub group_commit: bool,
    /// Whether the token of every grant of an exclusive lock is made by
    /// [`FencingToken::at_server_micros`](crate::FencingToken::at_server_micros), so that its low ten bits are free, and
    /// whether a grant of a fenced lock moves the counter by [`Call::reserved_tokens`](super::Call::reserved_tokens), too.
    /// Then the engine may hand a grant off to the next of its callers.
    pub hand_offs: bool,
}

impl OpenLane {
    /// A lane for this purpose, on this clock.
    pub fn new(purpose: LanePurpose, clock: Clock, command_timeout: Duration) -> Self {
        let (client, label, fair_wait) = (None, None, FAIR_WAIT);
        Self { purpose, clock, command_timeout, client, label, follows_callers: false, fair_wait }
    }

    /// Sets the part that names the engine in all its owners.
    pub fn with_client(self, client: Uuid) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Sets the label of the engine.
    pub fn with_label(self, label: EngineLabel) -> Self {
        Self { label: Some(label), ..self }
    }

    /// Sets how long clients of other kinds wait for a silent place at the head of a fair lock's line.
    pub fn with_fair_wait(self, fair_wait: Duration) -> Self {
        Self { fair_wait, ..self }
    }

    /// Sets whether a connection of the lane may follow its callers.
    pub fn with_follows_callers(self, follows_callers: bool) -> Self {
        Self { follows_callers, ..self }
    }
}

impl Capabilities {
    /// A transport that can keep exclusive locks with a ttl of at most `ttl_max`, and neither tells that a hold has
    /// ended nor since when a server is up.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use leasehold::transport::Capabilities;
    ///
    /// let capabilities = Capabilities::new("etcd", Duration::from_secs(3_600)).with_notices();
    /// assert!(capabilities.notices && !capabilities.uptime);
    /// ```
    pub const fn new(name: &'static str, ttl_max: Duration) -> Self {
        let (kinds, group_commit, hand_offs) = (Kinds::EXCLUSIVE, false, false);
        Self { name, notices: false, uptime: false, ttl_max, kinds, group_commit, hand_offs }
    }

    /// The transport can tell that a hold has ended.
    pub const fn with_notices(mut self) -> Self {
        self.notices = true;
        self
    }

    /// The transport can keep locks of these kinds, and of no others.
    pub const fn with_kinds(mut self, kinds: Kinds) -> Self {
        self.kinds = kinds;
        self
    }

    /// The transport makes many acquires and releases in one step.
    pub const fn with_group_commit(mut self) -> Self {
        self.group_commit = true;
        self
    }

    /// The low ten bits of the tokens of exclusive locks are free.
    pub const fn with_hand_offs(mut self) -> Self {
        self.hand_offs = true;
        self
    }

    /// The transport can tell since when a server is up.
    pub const fn with_uptime(mut self) -> Self {
        self.uptime = true;
        self
    }
}

/// Redisson's default.
const FAIR_WAIT: Duration = Duration::from_secs(300);
