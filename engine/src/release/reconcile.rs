//! Sends the releases of owners that no server has confirmed, until a server does. One task, on the calls thread.
//! `reconciler` says when each owner is due.

use std::sync::Arc;

use super::reconciler::{OpenOwner, SendOutcome};
use crate::{
    clock::Instant,
    guard,
    inner::Inner,
    key::LockKey,
    lease::unconfirmed_owner::UnconfirmedOwner,
    metrics::{EngineEvent, Operation},
    routing::topology::NodeId,
    transport::{Call, Op, TransportError},
};

/// Sends the first release of an owner and waits for the answer. The reconciler repeats the release if no server has
/// confirmed it.
pub(crate) async fn give_back(inner: &Inner, key: &Arc<LockKey>, closing: UnconfirmedOwner) {
    let mut owner = inner.reconciler.begin(inner, key, closing);
    let node = inner.calls.topology().and_then(|topology| topology.serving(key.slot()).map(|node| node.id));
    let outcome = release_guarded(inner, &mut owner).await;
    inner.reconciler.finish(inner, owner, node, outcome);
}

/// An owner's place in the limit of its node. Dropping it frees the place, whatever the outcome of the release.
struct NodePermit {
    inner: Arc<Inner>,
    node: Option<NodeId>,
}

impl Drop for NodePermit {
    fn drop(&mut self) {
        self.inner.reconciler.leave(&self.inner, self.node);
    }
}

/// Sends the releases that are due, until the engine has ended.
pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        match inner.reconciler.take_due(&inner) {
            Ok((owner, node)) => send_release(&inner, owner, node),
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
        () = inner.calls.topology_changed() => {}
    }
}

fn send_release(inner: &Arc<Inner>, mut owner: OpenOwner, node: Option<NodeId>) {
    let inner = inner.clone();
    inner.clone().spawn(async move {
        let _permit = NodePermit { inner: inner.clone(), node };
        let outcome = release_guarded(&inner, &mut owner).await;
        inner.reconciler.finish(&inner, owner, node, outcome);
    });
}

// If the transport panics, the release counts as unanswered and is repeated.
async fn release_guarded(inner: &Inner, owner: &mut OpenOwner) -> SendOutcome {
    guard::run(release(inner, owner)).await.unwrap_or(SendOutcome::Unanswered)
}

async fn release(inner: &Inner, owner: &mut OpenOwner) -> SendOutcome {
    owner.answered_by = None;
    let Some(lane) = inner.calls.lane() else { return SendOutcome::Unanswered };
    let sent = inner.clock.now();
    owner.sent = sent;
    let execute_by = sent + inner.config.command_timeout();
    let UnconfirmedOwner { kind, owner: who, .. } = owner.closing;
    let release = Call::new(owner.key.clone(), kind, Op::Release, who, execute_by);
    let answer = lane.call_one(release).await.definite(Op::Release);
    let (operation, took) = (Operation::Release, inner.clock.now() - sent);
    inner.events.record_engine(EngineEvent::Answered { operation, took, last_error: answer.as_ref().err() });
    let at = match answer.map(|answer| answer.at()) {
        Ok(Some(at)) => at,
        Ok(None) => return SendOutcome::Unanswered,
        Err(last_error) => return outcome_of(&last_error),
    };
    if inner.check_present(at).is_err() {
        return SendOutcome::Unanswered;
    }
    owner.answered_by = Some(at.clock);
    owner.closing.may_hold = false;
    owner.closing.open.handle_release(at);
    inner.reconciler.handle_answer_of(inner, at.clock.node);
    SendOutcome::Answered
}

fn outcome_of(last_error: &TransportError) -> SendOutcome {
    if last_error.kind.is_final() { SendOutcome::Answered } else { SendOutcome::Unanswered }
}
