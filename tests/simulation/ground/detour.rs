//! A transport that tells its caller at once that a request's fate is unknown, and delivers the request when the test
//! says so: a connection that broke behind a request which is still on its way.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use leasehold::{
    clock::Clock,
    key::LockKey,
    routing::topology::{NodeId, Topology},
    transport::{
        Acquire, AcquireReply, BoxFuture, Capabilities, ErrorKind, Inspection, Lane, OpenLane, Release,
        ReleaseReply, Renewal, RenewalAnswer, ServerTime, Transport, TransportError, Watch,
    },
};
use tokio::sync::watch;

/// Where requests are kept until they are delivered. Clones are the same.
#[derive(Clone, Default)]
pub struct Detours(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    acquires_wanted: usize,
    renewals_wanted: usize,
    acquires: VecDeque<(Arc<dyn Lane>, Acquire)>,
    renewals: VecDeque<(Arc<dyn Lane>, NodeId, Vec<Renewal>)>,
}

impl Detours {
    /// The next acquires take the detour.
    pub fn take_acquires(&self, count: usize) {
        self.kept(|kept| kept.acquires_wanted += count);
    }

    /// The next renewal batches take the detour.
    pub fn take_renewals(&self, count: usize) {
        self.kept(|kept| kept.renewals_wanted += count);
    }

    /// The oldest acquire arrives.
    pub async fn deliver_acquire(&self) -> AcquireReply {
        let (lane, request) = self.kept(|kept| kept.acquires.pop_front()).expect("an acquire on its way");
        lane.acquire(request).await.expect("a definite answer")
    }

    /// The oldest renewal batch arrives.
    pub async fn deliver_renewals(&self) -> Vec<Renewal> {
        let (lane, node, batch) = self.kept(|kept| kept.renewals.pop_front()).expect("a batch on its way");
        lane.renew(node, batch).await
    }

    fn kept<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().expect("no panic under it"))
    }
}

/// A transport with detours.
#[derive(Clone)]
pub struct Detour<T> {
    inner: T,
    pub detours: Detours,
}

impl<T> Detour<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, detours: Detours::default() }
    }
}

impl<T: Transport> Transport for Detour<T> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let (opening, detours) = (self.inner.open(open), self.detours.clone());
        Box::pin(async move {
            let inner = opening.await?;
            Ok(Arc::new(DetourLane { inner, detours, clock: open.clock }) as Arc<dyn Lane>)
        })
    }
}

struct DetourLane {
    inner: Arc<dyn Lane>,
    detours: Detours,
    clock: Clock,
}

impl DetourLane {
    // The server's time at `execute_by`, as a transport has to write it.
    async fn not_after(&self, key: &Arc<LockKey>, execute_by: leasehold::clock::Instant) -> ServerTime {
        let now = self.clock.now();
        let at = self.inner.inspect(key).await.expect("memory answers").at;
        ServerTime { micros: at.micros + (execute_by - now).as_micros() as u64, ..at }
    }
}

fn broken(not_after: ServerTime) -> TransportError {
    TransportError::unknown(ErrorKind::Unreachable, not_after, "the connection broke")
}

impl Lane for DetourLane {
    fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.inner.topology()
    }

    fn acquire(&self, request: Acquire) -> BoxFuture<'_, Result<AcquireReply, TransportError>> {
        let wanted = self.detours.kept(|kept| {
            let wanted = kept.acquires_wanted > 0;
            kept.acquires_wanted -= usize::from(wanted);
            wanted
        });
        if !wanted {
            return self.inner.acquire(request);
        }
        Box::pin(async move {
            let not_after = self.not_after(&request.key, request.execute_by).await;
            self.detours.kept(|kept| kept.acquires.push_back((self.inner.clone(), request)));
            Err(broken(not_after))
        })
    }

    fn release(&self, request: Release) -> BoxFuture<'_, Result<ReleaseReply, TransportError>> {
        self.inner.release(request)
    }

    fn renew(&self, node: NodeId, batch: Vec<Renewal>) -> BoxFuture<'_, Vec<Renewal>> {
        let wanted = self.detours.kept(|kept| {
            let wanted = kept.renewals_wanted > 0;
            kept.renewals_wanted -= usize::from(wanted);
            wanted
        });
        if !wanted {
            return self.inner.renew(node, batch);
        }
        Box::pin(async move {
            let kept_batch = batch.clone();
            let mut answered = batch;
            for member in &mut answered {
                let not_after = self.not_after(&member.key, member.execute_by).await;
                member.answer = RenewalAnswer::Failed(broken(not_after));
            }
            self.detours.kept(|kept| kept.renewals.push_back((self.inner.clone(), node, kept_batch)));
            answered
        })
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
