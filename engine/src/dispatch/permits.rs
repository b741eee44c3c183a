//! Starts work as its node has permits: retries, calls of lists, releases of unconfirmed owners.
//!
//! A call of a list keeps its permit until its first definite answer: a caller that waits for a lock that is held keeps none.
//! A release keeps its permit until it is answered.
//!
//! A node that has answered no call of a list for `unavailable_after` would take that long again for each further round. So
//! the acquires that wait for it fail with `Unavailable`, and the releases are left to the reconciler.

use std::{future::Future, sync::Arc};

use tokio::sync::oneshot;

use super::{
    dispatcher::Dispatcher,
    outbox::{Granted, Routed, WorkKind},
    permit::Permit,
    permit_queue::Rank,
    work::Work,
};
use crate::{
    clock::Instant,
    core::Core,
    routing::{slot::Slot, topology::NodeId},
    supervisor,
    transport::TransportError,
};

/// A permit to ask for one key again, granted or still waiting. Dropping it removes it from its queue.
pub(crate) struct RetryPermit {
    dispatcher: Arc<Dispatcher>,
    /// `None` once the permit is granted.
    waits: Option<(Rank, oneshot::Receiver<()>)>,
}

impl Dispatcher {
    /// A permit to ask again for a key of this slot. `oldest` is the moment since which the key's first caller has waited.
    pub(crate) fn retry(self: &Arc<Self>, core: &Arc<Core>, slot: Slot, oldest: Instant) -> RetryPermit {
        let (go, gone) = oneshot::channel();
        let rank = self.put_work(core, (WorkKind::Retry, oldest), Box::new(Retry { slot, go }));
        RetryPermit { dispatcher: self.clone(), waits: rank.map(|rank| (rank, gone)) }
    }

    /// Queues calls of a list, in this order. After the end of the engine they are rejected.
    pub(crate) fn add_bulk(
        self: &Arc<Self>,
        core: &Arc<Core>,
        calls: impl IntoIterator<Item = Box<dyn Work>>,
    ) {
        let mut calls = calls.into_iter();
        loop {
            // In parts, so that a long list keeps no other call waiting.
            let part: Vec<_> = calls.by_ref().take(PART).collect();
            if part.is_empty() {
                return self.news.notify_one();
            }
            self.add_part(core, part).into_iter().for_each(|call| call.reject());
        }
    }

    // Returns the calls if the engine has ended, or takes no acquires any more.
    fn add_part(&self, core: &Core, calls: Vec<Box<dyn Work>>) -> Vec<Box<dyn Work>> {
        let (topology, now) = (core.calls.topology(), core.clock.now());
        let (topology, order) = (topology.as_deref(), (WorkKind::Bulk, Instant::default()));
        let mut state = self.state();
        let is_refused =
            state.is_closed || core.check_open().is_err() && calls.iter().any(|call| call.is_acquire());
        if is_refused {
            return calls;
        }
        calls.into_iter().for_each(|call| state.outboxes.wait_for_permit(topology, order, call, now));
        Vec::new()
    }

    /// Starts the release of an unconfirmed owner, now or as its node has permits.
    pub(crate) fn add_closing(self: &Arc<Self>, core: &Arc<Core>, due: Instant, release: Box<dyn Work>) {
        self.put_work(core, (WorkKind::Closing, due), release);
    }

    /// The node that serves this slot has not confirmed a release: from now on it gets one release of an unconfirmed owner each
    /// 50 ms, until it answers anything.
    pub(crate) fn begin_silence(&self, core: &Core, slot: Slot) {
        let (topology, now) = (core.calls.topology(), core.clock.now());
        let mut state = self.state();
        state.outboxes.begin_silence(topology.as_deref(), slot, now);
        self.note_silent(&state);
    }

    /// Rejects all acquires of lists that have not begun.
    pub(crate) fn reject_acquires(self: &Arc<Self>, core: &Arc<Core>) {
        let all = self.state().outboxes.take_work(WorkKind::Bulk);
        let (acquires, releases): (Vec<_>, Vec<_>) = all.into_iter().partition(|call| call.is_acquire());
        self.add_bulk(core, releases);
        acquires.into_iter().for_each(|call| call.reject());
    }

    // Returns the rank of work that waits. `None`: it was begun, or it was rejected because the engine has ended.
    fn put_work(
        self: &Arc<Self>,
        core: &Arc<Core>,
        order: (WorkKind, Instant),
        work: Box<dyn Work>,
    ) -> Option<Rank> {
        let (topology, now) = (core.calls.topology(), core.clock.now());
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            work.reject();
            return None;
        }
        let put = state.outboxes.put_work(topology.as_deref(), order, work, now);
        drop(state);
        match put {
            Ok(granted) => {
                self.begin_work(core, granted);
                None
            }
            Err(rank) => {
                self.news.notify_one();
                Some(rank)
            }
        }
    }

    fn begin_work(self: &Arc<Self>, core: &Arc<Core>, granted: Granted<Box<dyn Work>>) {
        let Granted { work, node, kind, node_answers } = granted;
        let (core, dispatcher) = (core.clone(), self.clone());
        let give_back = move |last_error| dispatcher.take_back(&core, node, kind, last_error);
        work.begin(Permit::new(node_answers, give_back));
    }

    // A permit is returned. With a `last_error`, the node may have been silent for too long.
    fn take_back(
        &self,
        core: &Core,
        node: Option<NodeId>,
        kind: WorkKind,
        last_error: Option<Box<TransportError>>,
    ) {
        let now = core.clock.now();
        let mut state = self.state();
        let Some(outbox) = state.outboxes.get(node) else { return };
        let (queue, mut unserved) = (outbox.work(kind), Vec::new());
        if last_error.is_some() {
            unserved = queue.take_unserved(now, core.config.unavailable_after());
        }
        let is_wanted = queue.leave(last_error.is_none(), now);
        drop(state);
        if is_wanted {
            self.news.notify_one();
        }
        if let Some(last_error) = last_error {
            unserved.into_iter().for_each(|call| call.give_up((*last_error).clone()));
        }
    }

    fn take_granted(&self, core: &Core) -> Option<Granted<Box<dyn Work>>> {
        self.state().outboxes.take_granted(core.clock.now())
    }

    // Returns whether more work may be begun at once.
    fn begin_granted(self: &Arc<Self>, core: &Arc<Core>) -> bool {
        for _ in 0..BEGUN_IN_A_ROW {
            match self.take_granted(core) {
                Some(granted) => self.begin_work(core, granted),
                None => return false,
            }
        }
        true
    }

    fn next_look(&self, core: &Core) -> Option<Instant> {
        self.state().outboxes.next_look(core.clock.now())
    }
}

impl RetryPermit {
    /// Waits until the permit is granted. Dropping this future loses nothing.
    pub(crate) async fn granted(&mut self) {
        if let Some((_, go)) = &mut self.waits {
            let _ = go.await; // a dropped sender means that the engine has ended
            self.waits = None;
        }
    }
}

impl Drop for RetryPermit {
    fn drop(&mut self) {
        if let Some((rank, _)) = &self.waits {
            let left = self.dispatcher.state().outboxes.remove_work(WorkKind::Retry, *rank);
            drop(left); // after the outboxes are unlocked
        }
    }
}

/// An entry that waits until it may ask again.
#[derive(Debug)]
struct Retry {
    slot: Slot,
    go: oneshot::Sender<()>,
}

impl Routed for Retry {
    fn slot(&self) -> Slot {
        self.slot
    }
}

impl Work for Retry {
    fn begin(self: Box<Self>, permit: Permit) {
        drop(permit);
        let _ = self.go.send(());
    }

    fn reject(self: Box<Self>) {}
}

/// Starts work as permits get free, until the engine has ended. One task, on the calls thread. Dropping the future, polled or
/// not, rejects all work that has not begun.
pub(crate) fn run(core: Arc<Core>, dispatcher: Arc<Dispatcher>) -> impl Future<Output = ()> + Send {
    let closing = CloseOnDrop(dispatcher);
    async move {
        let dispatcher = &closing.0;
        supervisor::run(core.clock, "outboxes", || serve(core.clone(), dispatcher.clone())).await;
    }
}

async fn serve(core: Arc<Core>, dispatcher: Arc<Dispatcher>) {
    loop {
        dispatcher.handle_topology(&core);
        if dispatcher.begin_granted(&core) {
            tokio::task::yield_now().await;
            continue;
        }
        let (next, epoch) = (dispatcher.next_look(&core), dispatcher.state().outboxes.epoch());
        tokio::select! {
            () = dispatcher.news.notified() => {}
            () = core.calls.other_epoch(epoch) => {}
            () = sleep_until(&core, next) => {}
        }
    }
}

async fn sleep_until(core: &Core, moment: Option<Instant>) {
    match moment {
        Some(moment) => core.clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

struct CloseOnDrop(Arc<Dispatcher>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How much work is begun in a row. Then the other tasks of the calls thread run.
const BEGUN_IN_A_ROW: usize = 64;
/// How many calls of a list are queued while the outboxes are locked.
const PART: usize = 256;

#[cfg(test)]
mod tests;
