//! Limits the unanswered calls of `acquire_all` and `release_all` on each node, and queues the calls beyond the limit.
//!
//! A list of 100,000 names must not put 100,000 commands in front of the next single caller. So bulk calls share a
//! limit per node, `bulk_in_flight_max`, whatever list they belong to. An acquire keeps its permit until its first
//! definite answer: a caller that waits for a lock that is held keeps none. A release keeps its permit until it is
//! answered. A permit that gets free goes to the call that has waited longest for that node.
//!
//! A node that has answered no bulk call for `unavailable_after` would take that long again for each further round. So
//! the acquires that wait for it fail with `Unavailable`, and the releases are left to the reconciler.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    clock::Instant,
    core::Core,
    dispatch::per_node_limit::PerNodeLimit,
    routing::{slot::Slot, topology::NodeId},
    supervisor,
    transport::TransportError,
};

/// One call of a list: an acquire or a release.
pub(crate) trait BulkCall: fmt::Debug + Send {
    /// The slot of its key.
    fn slot(&self) -> Slot;

    /// Whether this call is an acquire. Acquires are rejected once the engine shuts down.
    fn is_acquire(&self) -> bool;

    /// Sends the call. The call keeps `permit` until it is answered.
    fn begin(self: Box<Self>, permit: BulkPermit);

    /// The engine has ended. Answers the caller of this call so.
    fn reject(self: Box<Self>);

    /// The node has not answered for too long. Answers the caller of this call so.
    fn give_up(self: Box<Self>, last_error: TransportError);
}

/// The limit of all nodes, and the calls that wait for it.
#[derive(Debug)]
pub(crate) struct BulkLimiter {
    queues: Mutex<Queues>,
    news: Notify,
}

#[derive(Debug)]
struct Queues {
    /// Calls to be entered at their nodes: new calls, and calls for which a permit may be free now.
    ready: VecDeque<Box<dyn BulkCall>>,
    per_node: PerNodeLimit<Box<dyn BulkCall>>,
    /// Since when each node has given no definite answer to a bulk call.
    silent_since: HashMap<Option<NodeId>, Instant>,
    topology_epoch: Option<u64>,
    closed: bool,
}

/// A bulk call's permit: its place in the limit of a node. Dropping it frees the place.
pub(crate) struct BulkPermit {
    core: Arc<Core>,
    limiter: Arc<BulkLimiter>,
    node: Option<NodeId>,
    last_error: Option<Box<TransportError>>,
}

impl BulkLimiter {
    /// Creates a limiter with a limit of `most` unanswered calls on each node.
    pub(crate) fn new(most: usize) -> Self {
        let queues = Queues {
            ready: VecDeque::new(),
            per_node: PerNodeLimit::new(most),
            silent_since: HashMap::new(),
            topology_epoch: None,
            closed: false,
        };
        Self { queues: Mutex::new(queues), news: Notify::new() }
    }

    /// Queues calls in this order. After the end of the engine they are rejected.
    pub(crate) fn add(&self, calls: impl IntoIterator<Item = Box<dyn BulkCall>>) {
        let mut calls: VecDeque<Box<dyn BulkCall>> = calls.into_iter().collect();
        let mut queues = self.lock();
        if !queues.closed {
            queues.ready.append(&mut calls);
        }
        drop(queues);
        calls.into_iter().for_each(BulkCall::reject);
        self.news.notify_one();
    }

    /// Rejects all acquires that have not begun.
    pub(crate) fn reject_acquires(&self) {
        let mut queues = self.lock();
        let (acquires, releases): (Vec<_>, Vec<_>) =
            queues.take_all().into_iter().partition(|call| call.is_acquire());
        queues.ready.extend(releases);
        drop(queues);
        acquires.into_iter().for_each(BulkCall::reject);
        self.news.notify_one();
    }

    fn close(&self) {
        let mut queues = self.lock();
        queues.closed = true;
        let rest = queues.take_all();
        drop(queues);
        rest.into_iter().for_each(BulkCall::reject);
    }

    fn take_next(self: &Arc<Self>, core: &Arc<Core>) -> Option<(Box<dyn BulkCall>, BulkPermit)> {
        let (topology, now) = (core.calls.topology(), core.clock.now());
        let mut queues = self.lock();
        queues.handle_topology(topology.as_ref().map(|topology| topology.epoch()));
        while let Some(call) = queues.ready.pop_front() {
            let node = topology.as_ref().and_then(|topology| topology.serving(call.slot()));
            let node = node.map(|node| node.id);
            if let Some(call) = queues.enter(node, call, now) {
                let (core, limiter) = (core.clone(), self.clone());
                return Some((call, BulkPermit { core, limiter, node, last_error: None }));
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    // A call that waits for one node may find a permit at another node.
    fn handle_topology(&mut self, epoch: Option<u64>) {
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            let waiting = self.per_node.take_waiting();
            self.ready.extend(waiting);
        }
    }

    fn enter(
        &mut self,
        node: Option<NodeId>,
        call: Box<dyn BulkCall>,
        now: Instant,
    ) -> Option<Box<dyn BulkCall>> {
        self.silent_since.entry(node).or_insert(now);
        self.per_node.enter(node, call)
    }

    fn leave(&mut self, node: Option<NodeId>) {
        match self.per_node.leave(node) {
            Some(next) => self.ready.push_front(next),
            None if self.per_node.is_empty(node) => drop(self.silent_since.remove(&node)),
            None => {}
        }
    }

    // The calls that wait for a node that has been silent for `patience`.
    fn take_unserved(
        &mut self,
        node: Option<NodeId>,
        now: Instant,
        patience: Duration,
    ) -> Vec<Box<dyn BulkCall>> {
        let silent = self.silent_since.get(&node).is_some_and(|since| now - *since >= patience);
        if silent { self.per_node.take_waiting_at(node) } else { Vec::new() }
    }

    fn take_all(&mut self) -> VecDeque<Box<dyn BulkCall>> {
        let waiting = self.per_node.take_waiting();
        let mut all = std::mem::take(&mut self.ready);
        all.extend(waiting);
        all
    }
}

impl BulkPermit {
    /// A send has ended. With a definite answer the permit is returned; otherwise the call keeps it.
    pub(crate) fn after(mut self, last_error: Option<Box<TransportError>>) -> Option<Self> {
        self.last_error = last_error;
        Some(self).filter(Self::is_unanswered)
    }

    /// Whether the last send had no definite answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.last_error.is_some()
    }
}

impl Drop for BulkPermit {
    fn drop(&mut self) {
        let (limiter, node, now) = (&self.limiter, self.node, self.core.clock.now());
        let mut queues = limiter.lock();
        let unserved = match &self.last_error {
            Some(_) => queues.take_unserved(node, now, self.core.config.unavailable_after()),
            None => {
                queues.silent_since.insert(node, now);
                Vec::new()
            }
        };
        queues.leave(node);
        drop(queues);
        limiter.news.notify_one();
        if let Some(last_error) = self.last_error.take() {
            unserved.into_iter().for_each(|call| call.give_up((*last_error).clone()));
        }
    }
}

/// Begins the calls as permits get free, until the engine has ended. One task, on the calls thread. Dropping the
/// future, polled or not, rejects every call that has not begun.
pub(crate) fn run(core: Arc<Core>, limiter: Arc<BulkLimiter>) -> impl Future<Output = ()> + Send {
    let closing = CloseOnDrop(limiter);
    async move {
        let limiter = &closing.0;
        supervisor::run(core.clock, "bulk calls", || serve(core.clone(), limiter.clone())).await;
    }
}

async fn serve(core: Arc<Core>, limiter: Arc<BulkLimiter>) {
    let mut begun = 0_usize;
    loop {
        while let Some((call, permit)) = limiter.take_next(&core) {
            call.begin(permit);
            begun += 1;
            if begun % BEGUN_IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
        }
        tokio::select! {
            () = limiter.news.notified() => {}
            () = core.calls.topology_changed() => {}
        }
    }
}

struct CloseOnDrop(Arc<BulkLimiter>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The number of calls that are begun in a row. Then the other tasks of the calls thread run.
const BEGUN_IN_A_ROW: usize = 64;

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        calls_runtime::CallsRuntime,
        clock::Clock,
        config::EngineConfig,
        metrics::{Classes, Events},
        transport::Capabilities,
    };

    #[derive(Debug)]
    struct Counted(Arc<AtomicUsize>);

    impl BulkCall for Counted {
        fn slot(&self) -> Slot {
            Slot::of(b"a")
        }

        fn is_acquire(&self) -> bool {
            true
        }

        fn begin(self: Box<Self>, _: BulkPermit) {
            panic!("the service never ran");
        }

        fn reject(self: Box<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn give_up(self: Box<Self>, _: TransportError) {
            panic!("no node was silent");
        }
    }

    fn core() -> Arc<Core> {
        let events = Events::new(None, None, Arc::new(Classes::new(&BTreeMap::new())));
        let capabilities = Capabilities::new("test", Duration::from_secs(86_400));
        let runtime = CallsRuntime::users(tokio::runtime::Handle::current());
        Arc::new(Core::new(Clock::Tokio, EngineConfig::default(), capabilities, events, runtime))
    }

    // A queued call keeps its engine alive, and the engine keeps the limiter: a call that nothing takes out of the
    // queue would keep both for ever.
    #[tokio::test]
    async fn a_service_dropped_before_its_first_poll_rejects_every_call() {
        let (limiter, rejected) = (Arc::new(BulkLimiter::new(1)), Arc::default());
        let call = || [Box::new(Counted(Arc::clone(&rejected))) as Box<dyn BulkCall>];
        let service = run(core(), limiter.clone());
        limiter.add(call());
        drop(service);
        assert_eq!(rejected.load(Ordering::Relaxed), 1, "queued before the end");
        limiter.add(call());
        assert_eq!(rejected.load(Ordering::Relaxed), 2, "after the end");
    }
}
