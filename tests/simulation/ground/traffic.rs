//! A transport that writes down what an engine sends, and passes it on.

use std::sync::{Arc, Mutex};

use leasehold::{
    clock::{Clock, Instant},
    key::LockKey,
    owner::Owner,
    routing::topology::{NodeId, Topology},
    transport::{
        Acquire, AcquireReply, BoxFuture, Capabilities, Inspection, Lane, OpenLane, Release, ReleaseReply,
        Renewal, Transport, TransportError, Watch,
    },
};
use tokio::sync::watch;

/// One thing that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub what: What,
    pub owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Acquire,
    Release,
    Renewal,
}

/// What was sent so far, over all lanes.
#[derive(Clone, Debug, Default)]
pub struct TrafficLog(Arc<Mutex<Vec<Sent>>>);

impl TrafficLog {
    pub fn all(&self) -> Vec<Sent> {
        self.0.lock().expect("no panic under it").clone()
    }

    pub fn of(&self, what: What) -> Vec<Sent> {
        self.all().into_iter().filter(|sent| sent.what == what).collect()
    }

    pub fn count(&self, what: What) -> usize {
        self.0.lock().expect("no panic under it").iter().filter(|sent| sent.what == what).count()
    }

    pub fn clear(&self) {
        self.0.lock().expect("no panic under it").clear();
    }

    fn note(&self, clock: Clock, what: What, owners: impl IntoIterator<Item = Owner>) {
        let at = clock.now();
        let sent = owners.into_iter().map(|owner| Sent { at, what, owner });
        self.0.lock().expect("no panic under it").extend(sent);
    }
}

/// A transport whose traffic is written down.
#[derive(Clone)]
pub struct Traffic<T> {
    inner: T,
    pub log: TrafficLog,
}

impl<T> Traffic<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, log: TrafficLog::default() }
    }
}

impl<T: Transport> Transport for Traffic<T> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let (opening, log) = (self.inner.open(open), self.log.clone());
        Box::pin(async move {
            let inner = opening.await?;
            Ok(Arc::new(TrafficLane { inner, log, clock: open.clock }) as Arc<dyn Lane>)
        })
    }
}

struct TrafficLane {
    inner: Arc<dyn Lane>,
    log: TrafficLog,
    clock: Clock,
}

impl Lane for TrafficLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.inner.topology()
    }

    fn acquire(&self, request: Acquire) -> BoxFuture<'_, Result<AcquireReply, TransportError>> {
        self.log.note(self.clock, What::Acquire, [request.owner]);
        self.inner.acquire(request)
    }

    fn release(&self, request: Release) -> BoxFuture<'_, Result<ReleaseReply, TransportError>> {
        self.log.note(self.clock, What::Release, [request.owner]);
        self.inner.release(request)
    }

    fn renew(&self, node: NodeId, batch: Vec<Renewal>) -> BoxFuture<'_, Vec<Renewal>> {
        let members = batch.iter().map(|member| member.owner);
        self.log.note(self.clock, What::Renewal, members);
        self.inner.renew(node, batch)
    }

    fn watch(&self, key: &Arc<LockKey>) -> Watch {
        self.inner.watch(key)
    }

    fn inspect(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<Inspection, TransportError>> {
        self.inner.inspect(key)
    }

    fn force_release(&self, key: &Arc<LockKey>) -> BoxFuture<'_, Result<bool, TransportError>> {
        self.inner.force_release(key)
    }
}
