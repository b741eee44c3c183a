use std::sync::Arc;

use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::topology::NodeId,
    transport::{
        Acquire, AcquireReply, BoxFuture, CounterCall, CounterReply, ErrorKind, Inspection, Lane, Release,
        ReleaseReply, Renewal, RenewalAnswer, ServerTime, TransportError,
    },
};

use super::{Operation, probe::Probe};

/// A call of a lane as a value, which can be stored, repeated and sent later.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Acquire(Acquire),
    Release(Release),
    Renew(NodeId, Vec<Renewal>),
    Inspect(Arc<LockKey>),
    ForceRelease(Arc<LockKey>),
    Count(CounterCall),
}

/// The server's reply to a held request, by the kind of the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The reply to an acquire.
    Acquire(Result<AcquireReply, TransportError>),
    /// The reply to a release.
    Release(Result<ReleaseReply, TransportError>),
    /// The members of a renewal batch, each with its answer.
    Renew(Vec<Renewal>),
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
            Request::Acquire(request) => answer(lane.acquire(request), Answer::Acquire),
            Request::Release(request) => answer(lane.release(request), Answer::Release),
            Request::Renew(node, batch) => answer(lane.renew(node, batch), Answer::Renew),
            Request::Inspect(key) => answer(lane.inspect(&key), Answer::Inspect),
            Request::ForceRelease(key) => answer(lane.force_release(&key), Answer::ForceRelease),
            Request::Count(call) => answer(lane.count(call), Answer::Count),
        }
    }

    pub(super) fn operation(&self) -> Operation {
        match self {
            Request::Acquire(_) => Operation::Acquire,
            Request::Release(_) => Operation::Release,
            Request::Renew(..) => Operation::Renew,
            Request::Inspect(_) => Operation::Inspect,
            Request::ForceRelease(_) => Operation::ForceRelease,
            Request::Count(_) => Operation::Count,
        }
    }

    /// Returns the keys of the request. Only an empty batch has none.
    pub(super) fn keys(&self) -> Vec<&LockKey> {
        match self {
            Request::Renew(_, batch) => batch.iter().map(|member| &*member.key).collect(),
            Request::Acquire(_)
            | Request::Release(_)
            | Request::Inspect(_)
            | Request::ForceRelease(_)
            | Request::Count(_) => self.first_key().map(|key| &**key).into_iter().collect(),
        }
    }

    pub(super) fn first_key(&self) -> Option<&Arc<LockKey>> {
        match self {
            Request::Acquire(request) => Some(&request.key),
            Request::Release(request) => Some(&request.key),
            Request::Renew(_, batch) => batch.first().map(|member| &member.key),
            Request::Inspect(key) | Request::ForceRelease(key) => Some(key),
            Request::Count(call) => Some(&call.key),
        }
    }

    /// Returns the earliest `execute_by` in the request. `None`: it has none.
    pub(super) fn execute_by(&self) -> Option<Instant> {
        match self {
            Request::Acquire(request) => Some(request.execute_by),
            Request::Count(call) => Some(call.execute_by),
            Request::Renew(_, batch) => batch.iter().map(|member| member.execute_by).min(),
            Request::Release(_) | Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// Keeps the first half of a batch. Any other request stays whole.
    pub(super) fn halved(self) -> Request {
        match self {
            Request::Renew(node, mut batch) => {
                batch.truncate(batch.len() / 2);
                Request::Renew(node, batch)
            }
            whole => whole,
        }
    }

    /// Returns the reply "too late", if this kind of request has it.
    pub(super) fn too_late(self, at: ServerTime) -> Option<Answer> {
        match self {
            Request::Acquire(_) => Some(Answer::Acquire(Ok(AcquireReply::TooLate { at }))),
            Request::Count(_) => Some(Answer::Count(Ok(CounterReply::TooLate { at }))),
            Request::Renew(_, batch) => Some(answer_all(batch, |_| RenewalAnswer::TooLate { at })),
            Request::Release(_) | Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// Returns the reply with this error. `error` gets the `execute_by` of the request, or `None` if this kind of
    /// request has none.
    pub(super) fn failed(self, error: impl Fn(Option<Instant>) -> TransportError) -> Answer {
        match self {
            Request::Acquire(request) => Answer::Acquire(Err(error(Some(request.execute_by)))),
            Request::Release(_) => Answer::Release(Err(error(None))),
            Request::Inspect(_) => Answer::Inspect(Err(error(None))),
            Request::ForceRelease(_) => Answer::ForceRelease(Err(error(None))),
            Request::Count(call) => Answer::Count(Err(error(Some(call.execute_by)))),
            Request::Renew(_, batch) => {
                answer_all(batch, |member| RenewalAnswer::Failed(error(Some(member.execute_by))))
            }
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

fn answer_all(mut batch: Vec<Renewal>, answer: impl Fn(&Renewal) -> RenewalAnswer) -> Answer {
    for member in &mut batch {
        member.answer = answer(member);
    }
    Answer::Renew(batch)
}
