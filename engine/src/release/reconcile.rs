//! Sends the releases of owners that no server has confirmed, until a server does. One task, on the calls thread.
//! `reconciler` says when each owner is due, and the outbox of its node when its release is sent.

use std::{fmt, future::Future, sync::Arc};

use tokio::sync::oneshot;

use super::{
    exchange::{self, Answered, Release, SentAs},
    reconciler::{Exchanged, OpenOwner},
};
use crate::{
    clock::Instant,
    dispatch::{outbox::Routed, permit::Permit, work::Work},
    guard,
    inner::Inner,
    key::LockKey,
    lease::unconfirmed_owner::UnconfirmedOwner,
    routing::slot::Slot,
    supervisor,
};

/// Sends the first release of an owner and waits for the answer. The reconciler repeats the release if no server has
/// confirmed it.
pub(crate) async fn give_back(inner: &Arc<Inner>, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
    let owner = inner.reconciler.begin(inner, key, closing);
    let (done, is_done) = oneshot::channel();
    let under_way = UnderWay::new(inner, owner, None, Some(done));
    let _ = guard::call(|| under_way.send()); // a panic of the transport is an answer that never comes
    let _ = is_done.await; // the sender is dropped once the answer was handled
}

/// Sends the releases that are due, until the engine has ended. Dropping the future answers every caller that waits for one.
pub(crate) fn run(inner: Arc<Inner>) -> impl Future<Output = ()> + Send {
    let closing = CloseOnDrop(inner);
    async move {
        let inner = &closing.0;
        supervisor::run(inner.clock, "reconciler", || serve(inner.clone())).await;
    }
}

async fn serve(inner: Arc<Inner>) {
    let mut begun = 0_usize;
    loop {
        if inner.reconciler.answer_overdue(inner.clock.now()) {
            tokio::task::yield_now().await;
            continue;
        }
        match inner.reconciler.take_due(&inner) {
            Ok((due, owner)) => {
                let release = Box::new(DueRelease { inner: inner.clone(), owner });
                inner.dispatcher.add_closing(&inner.core, due, release);
                begun += 1;
                if begun % BEGUN_IN_A_ROW == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Err(next) => wait(&inner, next).await,
        }
    }
}

async fn wait(inner: &Inner, next: Option<Instant>) {
    let timer = async {
        match next {
            Some(moment) => inner.clock.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = timer => {}
        () = inner.reconciler.changed() => {}
        () = inner.calls.other_epoch(inner.reconciler.topology_epoch()) => {}
    }
}

/// How many releases are begun or queued in a row. Then the other tasks of the calls thread run.
const BEGUN_IN_A_ROW: usize = 64;

struct CloseOnDrop(Arc<Inner>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.reconciler.close();
    }
}

/// An owner whose release waits for a permit of its node.
struct DueRelease {
    inner: Arc<Inner>,
    owner: OpenOwner,
}

impl Routed for DueRelease {
    fn slot(&self) -> Slot {
        self.owner.key.slot()
    }
}

impl Work for DueRelease {
    fn begin(self: Box<Self>, permit: Permit) {
        UnderWay::new(&self.inner, self.owner, Some(permit), None).send();
    }

    fn reject(self: Box<Self>) {}
}

impl fmt::Debug for DueRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DueRelease({:?})", self.owner.key)
    }
}

/// A release of an owner that was sent. If the transport panics, it is dropped: then the release counts as unanswered.
struct UnderWay {
    inner: Arc<Inner>,
    owner: Option<OpenOwner>,
    permit: Option<Permit>,
    _done: Option<oneshot::Sender<()>>,
}

impl UnderWay {
    fn new(
        inner: &Arc<Inner>,
        owner: OpenOwner,
        permit: Option<Permit>,
        done: Option<oneshot::Sender<()>>,
    ) -> Self {
        Self { inner: inner.clone(), owner: Some(owner), permit, _done: done }
    }

    fn send(mut self) {
        let Some(owner) = &mut self.owner else { return };
        owner.sent = self.inner.clock.now();
        let UnconfirmedOwner { kind, owner: who, .. } = owner.closing;
        let release = Release { key: owner.key.clone(), kind, owner: who };
        let (inner, sent) = (self.inner.clone(), owner.sent);
        exchange::send(&inner, release, sent, SentAs::Repeat, move |answered| self.land(Some(answered)));
    }

    fn land(&mut self, answered: Option<Answered>) {
        let Some(mut owner) = self.owner.take() else { return };
        let node_answers = self.permit.as_ref().is_some_and(Permit::node_answers);
        let reply = answered.map(|Answered { reply, sent, .. }| {
            owner.sent = sent;
            reply
        });
        let unanswered = Exchanged::Unanswered { node_answers };
        let exchanged = reply.as_ref().map_or(unanswered, |reply| Exchanged::of(reply, node_answers));
        if let Exchanged::Unanswered { .. } = exchanged {
            self.inner.dispatcher.begin_silence(&self.inner.core, owner.key.slot());
        }
        self.inner.reconciler.finish(&self.inner, owner, reply, exchanged);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.land(None);
    }
}
