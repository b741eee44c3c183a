//! One release that is sent to a server, and its answer. Every release of the engine is sent here.

use std::sync::Arc;

use crate::{
    clock::Instant,
    dispatch::calls::{Begun, CallTimes},
    inner::Inner,
    key::LockKey,
    metrics::{EngineEvent, Operation},
    owner::Owner,
    transport::{AnswerTo, Call, HoldKind, Op, Outcome, TransportError},
};

/// What is released: a hold of this owner.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) key: Arc<LockKey>,
    pub(super) kind: HoldKind,
    pub(super) owner: Owner,
}

/// What one send came to.
pub(super) struct Answered {
    pub(super) reply: Result<Outcome, TransportError>,
    pub(super) sent: Instant,
    pub(super) received: Instant,
}

/// How a release is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentAs {
    /// With other calls, if its node is busy or silent.
    First,
    /// With other calls, if its node is busy. To a silent node it is sent at once: the outbox of the node says when.
    Repeat,
}

/// Sends a release once. `done` gets what it came to, where the answer arrives. It is dropped without a call if the transport
/// panics.
pub(super) fn send(
    inner: &Arc<Inner>,
    release: Release,
    sent: Instant,
    how: SentAs,
    done: impl FnOnce(Answered) + Send + 'static,
) {
    let Some(lane) = inner.calls.lane() else {
        return done(Answered { reply: Err(inner.calls.last_error()), sent, received: sent });
    };
    let Release { key, kind, owner } = release;
    #[cfg(leasehold_fault)]
    if crate::faults::Fault::BlindRelease.is_on() && how == SentAs::First {
        let (lane, key) = (lane.clone(), key.clone());
        inner.spawn(async move { drop(lane.force_release(&key).await) });
    }
    let execute_by = sent + inner.config.command_timeout();
    let call = Call::new(key, kind, Op::Release, owner, execute_by);
    let begun = inner.dispatcher.count();
    let goes_alone = inner.dispatcher.goes_alone(&begun)
        || inner.dispatcher.holds_calls_back() && goes_to_silent(inner, how);
    let receiver = inner.clone();
    let answer_to =
        AnswerTo::of_queued(move |outcome, waited| done(land(&receiver, sent + waited, outcome, begun)));
    let times = CallTimes { ready: sent, leaves: None };
    inner.dispatcher.begin(&inner.core, &lane, call, times, goes_alone, answer_to);
}

// A release that a server executes after the end of this process still frees its lock. So a silent node gets all releases of a
// shutdown.
fn goes_to_silent(inner: &Inner, how: SentAs) -> bool {
    how == SentAs::Repeat || inner.check_open().is_err()
}

fn land(inner: &Arc<Inner>, sent: Instant, outcome: Outcome, begun: Begun) -> Answered {
    drop(begun);
    let (reply, received) = (outcome.definite(Op::Release), inner.clock.now());
    let (operation, took) = (Operation::Release, received - sent);
    inner.events.record_engine(EngineEvent::Answered { operation, took, last_error: reply.as_ref().err() });
    Answered { reply: reply.and_then(|reply| of_present_server(inner, reply)), sent, received }
}

fn of_present_server(inner: &Inner, reply: Outcome) -> Result<Outcome, TransportError> {
    if let Some(at) = reply.at() {
        inner.check_present(at)?;
        inner.dispatcher.handle_answer_of(&inner.core, at.clock.node);
    }
    Ok(reply)
}
