//! Writes down what an engine sends, and passes it on.

use std::sync::{Arc, Mutex};

use leasehold::{
    clock::{Clock, Instant},
    owner::Owner,
    routing::topology::NodeId,
    transport::{Acquire, AcquireReply, BoxFuture, Release, ReleaseReply, Renewal, TransportError},
};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

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
pub type Traffic<T> = Interposed<T, TrafficLog>;

impl Hand for TrafficLog {
    fn acquire<'a>(
        &'a self,
        behind: &'a Behind,
        request: Acquire,
    ) -> BoxFuture<'a, Result<AcquireReply, TransportError>> {
        self.note(behind.clock, What::Acquire, [request.owner]);
        behind.lane.acquire(request)
    }

    fn release<'a>(
        &'a self,
        behind: &'a Behind,
        request: Release,
    ) -> BoxFuture<'a, Result<ReleaseReply, TransportError>> {
        self.note(behind.clock, What::Release, [request.owner]);
        behind.lane.release(request)
    }

    fn renew<'a>(
        &'a self,
        behind: &'a Behind,
        node: NodeId,
        batch: Vec<Renewal>,
    ) -> BoxFuture<'a, Vec<Renewal>> {
        self.note(behind.clock, What::Renewal, batch.iter().map(|member| member.owner));
        behind.lane.renew(node, batch)
    }
}
