//! A lane to the table. Each request is executed when the call is made, so requests are executed in the order of
//! the calls, and the future is ready at once. Dropping the future gives up the reply, never the request.

use std::{
    future::ready,
    sync::{Arc, Weak},
};

use leasehold::{
    clock::Clock,
    key::LockKey,
    owner::Owner,
    routing::topology::{NodeId, Topology},
    transport::{
        AnswerTo, AuditContext, AuditLevel, BoxFuture, Call, Counter, CounterCall, CounterReply, ErrorKind,
        Finding, HoldKind, Inspection, Lane, Outcome, TransportError, Watch,
    },
};
use tokio::sync::watch;

use crate::{
    begun::BegunCalls,
    server::{NODE, Server, State},
    watchers::{Watched, Watches, notify},
};

/// A lane of either purpose. Both purposes behave the same.
#[derive(Debug)]
pub(crate) struct MemoryLane {
    server: Arc<Server>,
    clock: Clock,
    begun: BegunCalls,
}

impl MemoryLane {
    pub(crate) fn new(server: Arc<Server>, clock: Clock) -> Self {
        let theirs = server.clone();
        let begun = BegunCalls::start(move |mut call, answer_to| {
            execute(&theirs, clock, std::slice::from_mut(&mut call));
            answer_to.answer(call.outcome);
        });
        Self { server, clock, begun }
    }

    fn execute(&self, calls: &mut [Call]) {
        execute(&self.server, self.clock, calls);
    }

    fn execute_force_release(&self, key: &Arc<LockKey>) -> bool {
        let mut state = self.server.lock();
        let at = state.moment(self.clock).server;
        let was_held = state.force_release(key, at);
        let turn = take_turn(&mut state, key);
        let watches = state.watchers.of(key, Watched::Holds).filter(|_| was_held).cloned();
        drop(state);
        notify_all(watches);
        notify_all(turn);
        was_held
    }

    fn execute_count(&self, call: &CounterCall) -> CounterReply {
        let mut state = self.server.lock();
        let now = state.moment(self.clock);
        let (reply, told) = state.count(call, now);
        let watches = state.watchers.of(&call.key, watched_as(call.counter)).filter(|_| told).cloned();
        drop(state);
        notify_all(watches);
        reply
    }

    fn watch_one(&self, key: &Arc<LockKey>, watched: Watched) -> Watch {
        let state = self.server.lock().watchers.watch(key, watched);
        Watch::new(state, Interest { server: Arc::downgrade(&self.server), key: key.clone() })
    }
}

// Watches are notified after the server is unlocked.
fn execute(server: &Server, clock: Clock, calls: &mut [Call]) {
    let mut state = server.lock();
    let now = state.moment(clock);
    let mut ended = Vec::new();
    for (place, call) in calls.iter_mut().enumerate() {
        let is_told = state.execute(call, now);
        if matches!(call.kind, HoldKind::Fair) {
            let watches = take_turn(&mut state, &call.key);
            ended.extend(watches.map(|watches| (place, watches)));
        } else if is_told {
            let watches = state.watchers.of(&call.key, Watched::Holds).filter(|_| call.kind.notifies());
            ended.extend(watches.map(|watches| (place, watches.clone()))); // most keys have none
        }
    }
    drop(state);
    for (place, watches) in ended {
        let told = notify_all(Some(watches));
        listeners(&mut calls[place].outcome).into_iter().for_each(|count| *count = told);
    }
}

impl Lane for MemoryLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.server.topology()
    }

    fn call_one(&self, mut call: Call) -> BoxFuture<'_, Outcome> {
        self.execute(std::slice::from_mut(&mut call));
        Box::pin(ready(call.outcome))
    }

    fn begin(&self, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        self.begun.put(call, answer_to)
    }

    fn call(&self, node: NodeId, mut batch: Vec<Call>) -> BoxFuture<'_, Vec<Call>> {
        if node == NODE {
            self.execute(&mut batch);
        } else {
            batch.iter_mut().for_each(|call| call.outcome = refused(node));
        }
        Box::pin(ready(batch))
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        self.watch_one(key, Watched::Holds)
    }

    fn watch_turn(&self, key: &Arc<LockKey>, owner: Owner) -> Watch {
        self.watch_one(key, Watched::Turn(owner))
    }

    fn count(&self, call: CounterCall) -> BoxFuture<'_, Result<CounterReply, TransportError>> {
        Box::pin(ready(Ok(self.execute_count(&call))))
    }

    fn watch_counter(&self, key: &Arc<LockKey>, counter: Counter) -> Watch {
        self.watch_one(key, watched_as(counter))
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        let state = self.server.lock();
        let at = state.moment(self.clock).server;
        Box::pin(ready(Ok(state.inspect(key, at))))
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        Box::pin(ready(Ok(self.execute_force_release(key))))
    }

    fn audit(&self, _terms: AuditContext) -> BoxFuture<'_, Vec<Finding>> {
        let found = "locks exclude callers of this process only";
        let remedy = "use the transport of a server to share them with other processes";
        Box::pin(ready(vec![Finding::new(AuditLevel::Info, "memory", found, remedy)]))
    }
}

/// Dropped with its watch, after the receiver of the watch.
#[derive(Debug)]
struct Interest {
    server: Weak<Server>,
    key: Arc<LockKey>,
}

impl Drop for Interest {
    fn drop(&mut self) {
        if let Some(server) = self.server.upgrade() {
            server.lock().watchers.forget_unwatched(&self.key);
        }
    }
}

/// Permits that become available are told to those who wait for the end of holds.
fn watched_as(counter: Counter) -> Watched {
    match counter {
        Counter::PermitTotal => Watched::Holds,
        counter => Watched::Counter(counter),
    }
}

/// The watches of the owner whose turn has come by the last operation on this fair lock.
fn take_turn(state: &mut State, key: &Arc<LockKey>) -> Option<Watches> {
    let owner = state.table.take_turn()?;
    state.watchers.of(key, Watched::Turn(owner)).cloned()
}

fn notify_all(watches: Option<Watches>) -> u32 {
    let Some(watches) = watches else { return 0 };
    notify(&watches);
    u32::try_from(watches.receiver_count()).unwrap_or(u32::MAX)
}

/// The number of listeners, for the lane to fill in. `None`: there is nothing to tell the watchers.
fn listeners(outcome: &mut Outcome) -> Option<&mut u32> {
    match outcome {
        Outcome::Released { listeners, .. } | Outcome::Downgraded { listeners, .. } => listeners.as_mut(),
        _ => None,
    }
}

fn refused(node: NodeId) -> Outcome {
    let detail = format!("the memory transport has node 0 only, not node {}", node.0);
    Outcome::Failed(TransportError::without_effect(ErrorKind::Misconfigured, Some(node), detail))
}
