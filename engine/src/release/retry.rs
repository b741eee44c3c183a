//! Sends the release of a lease that has ended until a server has answered, for at most one command timeout from the
//! first send.
//!
//! A release may fail without an effect: the connection is down for a moment, the server loads its data, or the slot is
//! being moved. Most of the time the next try has a definite answer then, and the caller gets `Ok` instead of
//! `Unknown`. A send that may have been executed is repeated too. If the repeat is answered "not yours", the answer
//! does not show whether the earlier send released the lock or the lease was lost before. The lease is not held
//! meanwhile (S11).

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    clock::Instant,
    dispatch::group_commit::Begun,
    inner::Inner,
    lease::shared::LeaseCore,
    metrics::{EngineEvent, Operation},
    transport::{AnswerTo, Call, Effect, Op, Outcome, TransportError},
};

/// The outcome of all sends of one release.
pub(crate) struct Told {
    pub(crate) reply: Result<Outcome, TransportError>,
    /// Whether an earlier send was not answered and may have been executed.
    pub(crate) unsure: bool,
    /// When the answer was received, or the sends were given up.
    pub(crate) received: Instant,
}

/// Sends the release of a lease that has ended, and repeats it until a server has answered, for at most one command
/// timeout. `done` gets the outcome: where the first answer arrives if it is definite, so that most releases need no task.
pub(crate) fn send(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, done: impl FnOnce(Told) + Send + 'static) {
    let sent = inner.clock.now();
    let (sender, released) = (inner.clone(), lease.clone());
    send_once(inner, lease, sent, move |(reply, received)| {
        let told = Told { reply, unsure: false, received };
        if told.reply.is_ok() {
            return done(told);
        }
        let (inner, give_up) = (sender.clone(), sent + sender.config.command_timeout());
        sender.spawn(async move { done(insist(&inner, &released, give_up, told).await) });
    });
}

async fn insist(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, give_up: Instant, mut told: Told) -> Told {
    let mut pause = PAUSE_MIN;
    while let Err(last_error) = &told.reply {
        let next = inner.clock.now() + pause;
        if last_error.kind.is_final() || next >= give_up {
            break;
        }
        if last_error.effect != Effect::None {
            told.unsure = true;
        }
        tokio::select! {
            () = inner.clock.sleep_until(next) => {}
            () = inner.calls.topology_changed() => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
        match send_again(inner, lease, give_up).await {
            Some((reply, _received)) => told.reply = reply,
            None => break,
        }
    }
    Told { received: inner.clock.now(), ..told }
}

// The caller's time may end before this send has. The send goes on and its answer is ignored: the reconciler has the
// owner.
async fn send_again(inner: &Arc<Inner>, lease: &Arc<LeaseCore>, give_up: Instant) -> Option<Answered> {
    let (tell, told) = oneshot::channel();
    send_once(inner, lease, inner.clock.now(), move |answered| drop(tell.send(answered)));
    tokio::select! {
        biased;
        told = told => told.ok(),
        () = inner.clock.sleep_until(give_up) => None,
    }
}

/// What one send came to, and when.
type Answered = (Result<Outcome, TransportError>, Instant);

fn send_once(
    inner: &Arc<Inner>,
    lease: &Arc<LeaseCore>,
    sent: Instant,
    done: impl FnOnce(Answered) + Send + 'static,
) {
    let Some(lane) = inner.calls.lane() else { return done((Err(inner.calls.last_error()), sent)) };
    #[cfg(leasehold_fault)]
    if crate::faults::Fault::BlindRelease.is_on() {
        let (lane, key) = (lane.clone(), lease.key.clone());
        inner.spawn(async move { drop(lane.force_release(&key).await) });
    }
    let execute_by = sent + inner.config.command_timeout();
    let release = Call::new(lease.key.clone(), lease.kind(), Op::Release, lease.owner, execute_by);
    let begun = inner.group_commit.count();
    let goes_alone = inner.group_commit.goes_alone(&release, &begun);
    let receiver = inner.clone();
    let answer_to = AnswerTo::new(move |outcome| done(land(&receiver, sent, outcome, begun)));
    inner.group_commit.begin(&inner.core, &lane, release, goes_alone, answer_to);
}

fn land(inner: &Arc<Inner>, sent: Instant, outcome: Outcome, begun: Begun) -> Answered {
    drop(begun);
    let (reply, received) = (outcome.definite(Op::Release), inner.clock.now());
    let (operation, took) = (Operation::Release, received - sent);
    inner.events.record_engine(EngineEvent::Answered { operation, took, last_error: reply.as_ref().err() });
    (reply.and_then(|reply| of_present_server(inner, reply)), received)
}

fn of_present_server(inner: &Inner, reply: Outcome) -> Result<Outcome, TransportError> {
    if let Some(at) = reply.at() {
        inner.check_present(at)?;
        inner.reconciler.handle_answer_of(inner, at.clock.node);
    }
    Ok(reply)
}

/// Most reconnections and moves of a slot are over within a few of these pauses.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);
