use std::sync::Arc;

use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::topology::NodeId,
    transport::{
        BoxFuture, Call, CounterCall, CounterReply, ErrorKind, Inspection, Lane, Op, Outcome, ServerTime,
        TransportError,
    },
};

use super::{Operation, probe::Probe};

/// A call of a lane as a value, which can be stored, repeated and sent later.
#[derive(Clone, Debug)]
pub(super) enum Request {
    One(Call),
    Batch(NodeId, Vec<Call>),
    Inspect(Arc<LockKey>),
    ForceRelease(Arc<LockKey>),
    Count(CounterCall),
}

/// The server's reply to a held request, by the kind of the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The outcome of one call.
    One(Outcome),
    /// The calls of a batch, each with its outcome.
    Batch(Vec<Call>),
    /// The reply to an inspection.
    Inspect(Result<Inspection, TransportError>),
    /// The reply to a forced release.
    ForceRelease(Result<bool, TransportError>),
    /// The reply to an operation on a counter.
    Count(Result<CounterReply, TransportError>),
}

impl Request {
    /// Calls the lane now. The future only returns the reply.
    pub(super) fn send(self, lane: &dyn Lane) -> BoxFuture<'_, Answer> {
        match self {
            Request::One(call) => answer(lane.call_one(call), Answer::One),
            Request::Batch(node, batch) => answer(lane.call(node, batch), Answer::Batch),
            Request::Inspect(key) => answer(lane.inspect(&key), Answer::Inspect),
            Request::ForceRelease(key) => answer(lane.force_release(&key), Answer::ForceRelease),
            Request::Count(call) => answer(lane.count(call), Answer::Count),
        }
    }

    pub(super) fn operation(&self) -> Operation {
        match self {
            Request::One(call) => operation_of(call),
            Request::Batch(_, batch) => batch.first().map_or(Operation::Renew, operation_of),
            Request::Inspect(_) => Operation::Inspect,
            Request::ForceRelease(_) => Operation::ForceRelease,
            Request::Count(_) => Operation::Count,
        }
    }

    /// Returns the keys of the request. Only an empty batch has none.
    pub(super) fn keys(&self) -> Vec<&LockKey> {
        match self {
            Request::Batch(_, batch) => batch.iter().map(|call| &*call.key).collect(),
            Request::One(_) | Request::Inspect(_) | Request::ForceRelease(_) | Request::Count(_) => {
                self.first_key().map(|key| &**key).into_iter().collect()
            }
        }
    }

    pub(super) fn first_key(&self) -> Option<&Arc<LockKey>> {
        match self {
            Request::One(call) => Some(&call.key),
            Request::Batch(_, batch) => batch.first().map(|call| &call.key),
            Request::Inspect(key) | Request::ForceRelease(key) => Some(key),
            Request::Count(call) => Some(&call.key),
        }
    }

    /// Returns the earliest `execute_by` in the request. `None`: it has none.
    pub(super) fn execute_by(&self) -> Option<Instant> {
        match self {
            Request::One(call) => limit_of(call),
            Request::Count(call) => Some(call.execute_by),
            Request::Batch(_, batch) => batch.iter().filter_map(limit_of).min(),
            Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// Keeps the first half of a batch. Any other request stays whole.
    pub(super) fn halved(self) -> Request {
        match self {
            Request::Batch(node, mut batch) => {
                batch.truncate(batch.len() / 2);
                Request::Batch(node, batch)
            }
            whole => whole,
        }
    }

    /// Returns the reply "too late", if this kind of request has it.
    pub(super) fn too_late(self, at: ServerTime) -> Option<Answer> {
        match self {
            Request::One(call) => call.op.is_limited().then_some(Answer::One(Outcome::TooLate { at })),
            Request::Count(_) => Some(Answer::Count(Ok(CounterReply::TooLate { at }))),
            Request::Batch(_, batch) => Some(answer_all(batch, |_| Outcome::TooLate { at })),
            Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// Returns the reply with this error. `error` gets the `execute_by` of the request, or `None` if this kind of
    /// request has none.
    pub(super) fn failed(self, error: impl Fn(Option<Instant>) -> TransportError) -> Answer {
        match self {
            Request::One(call) => Answer::One(Outcome::Failed(error(limit_of(&call)))),
            Request::Inspect(_) => Answer::Inspect(Err(error(None))),
            Request::ForceRelease(_) => Answer::ForceRelease(Err(error(None))),
            Request::Count(call) => Answer::Count(Err(error(Some(call.execute_by)))),
            Request::Batch(_, batch) => answer_all(batch, |call| Outcome::Failed(error(limit_of(call)))),
        }
    }

    /// Returns the reply for a caller that gets no reply from the server. `probe` was taken before the request was
    /// sent.
    pub(super) fn unknown(self, kind: ErrorKind, probe: Probe) -> Answer {
        self.failed(|limit| {
            TransportError::unknown(kind, probe.not_after(limit), "injected fault: no answer")
        })
    }

    /// Returns the reply for a request that was certainly not executed.
    pub(super) fn refused(self, kind: ErrorKind) -> Answer {
        self.failed(|_| TransportError::without_effect(kind, None, "injected fault: refused"))
    }
}

fn answer<'a, T: 'a>(reply: BoxFuture<'a, T>, wrap: fn(T) -> Answer) -> BoxFuture<'a, Answer> {
    Box::pin(async move { wrap(reply.await) })
}

fn answer_all(mut batch: Vec<Call>, outcome: impl Fn(&Call) -> Outcome) -> Answer {
    for call in &mut batch {
        call.outcome = outcome(call);
    }
    Answer::Batch(batch)
}

fn operation_of(call: &Call) -> Operation {
    match call.op {
        Op::Release => Operation::Release,
        Op::Beat { .. } => Operation::Beat,
        Op::Renew { .. } | Op::Downgrade { .. } => Operation::Renew,
        _ => Operation::Acquire,
    }
}

/// The latest moment of execution. A release has none.
fn limit_of(call: &Call) -> Option<Instant> {
    call.op.is_limited().then_some(call.execute_by)
}
