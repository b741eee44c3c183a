//! Tells the caller at once that a request's fate is unknown, and delivers the request when the test
//! says so: a connection that broke behind a request which is still on its way.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::topology::NodeId,
    transport::{
        Acquire, AcquireReply, BoxFuture, ErrorKind, Lane, Renewal, RenewalAnswer, ServerTime, TransportError,
    },
};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

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
pub type Detour<T> = Interposed<T, Detours>;

impl Hand for Detours {
    fn acquire<'a>(
        &'a self,
        behind: &'a Behind,
        request: Acquire,
    ) -> BoxFuture<'a, Result<AcquireReply, TransportError>> {
        if !self.kept(|kept| take_one(&mut kept.acquires_wanted)) {
            return behind.lane.acquire(request);
        }
        Box::pin(async move {
            let not_after = not_after(behind, &request.key, request.execute_by).await;
            self.kept(|kept| kept.acquires.push_back((behind.lane.clone(), request)));
            Err(broken(not_after))
        })
    }

    fn renew<'a>(
        &'a self,
        behind: &'a Behind,
        node: NodeId,
        batch: Vec<Renewal>,
    ) -> BoxFuture<'a, Vec<Renewal>> {
        if !self.kept(|kept| take_one(&mut kept.renewals_wanted)) {
            return behind.lane.renew(node, batch);
        }
        Box::pin(async move {
            let mut answered = batch.clone();
            for member in &mut answered {
                let not_after = not_after(behind, &member.key, member.execute_by).await;
                member.answer = RenewalAnswer::Failed(broken(not_after));
            }
            self.kept(|kept| kept.renewals.push_back((behind.lane.clone(), node, batch)));
            answered
        })
    }
}

/// Whether one was wanted.
fn take_one(wanted: &mut usize) -> bool {
    let is_wanted = *wanted > 0;
    *wanted -= usize::from(is_wanted);
    is_wanted
}

/// The server's time at `execute_by`, as a transport has to write it.
async fn not_after(behind: &Behind, key: &Arc<LockKey>, execute_by: Instant) -> ServerTime {
    let now = behind.clock.now();
    let at = behind.lane.inspect(key).await.expect("memory answers").at;
    ServerTime { micros: at.micros + (execute_by - now).as_micros() as u64, ..at }
}

fn broken(not_after: ServerTime) -> TransportError {
    TransportError::unknown(ErrorKind::Unreachable, not_after, "the connection broke")
}
