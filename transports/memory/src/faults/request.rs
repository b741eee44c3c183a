use std::sync::Arc;

use leasehold::{
    clock::Instant,
    key::LockKey,
    routing::topology::NodeId,
    transport::{
        Acquire, AcquireReply, BoxFuture, ErrorKind, Inspection, Lane, Release, ReleaseReply, Renewal,
        RenewalAnswer, ServerTime, TransportError,
    },
};

use super::{Operation, probe::Probe};

/// A call of a lane, as a value that can be kept, repeated and sent later.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Acquire(Acquire),
    Release(Release),
    Renew(NodeId, Vec<Renewal>),
    Inspect(Arc<LockKey>),
    ForceRelease(Arc<LockKey>),
}

/// The server's answer to a request that was kept back, by the kind of the request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To an acquire.
    Acquire(Result<AcquireReply, TransportError>),
    /// To a release.
    Release(Result<ReleaseReply, TransportError>),
    /// To a renewal batch: its members, each with its answer.
    Renew(Vec<Renewal>),
    /// To an inspection.
    Inspect(Result<Inspection, TransportError>),
    /// To a forced release.
    ForceRelease(Result<bool, TransportError>),
}

impl Request {
    /// Calls the lane, now; the future is for the answer only.
    pub(super) fn send(self, lane: &dyn Lane) -> BoxFuture<'_, Answer> {
        match self {
            Request::Acquire(request) => answer(lane.acquire(request), Answer::Acquire),
            Request::Release(request) => answer(lane.release(request), Answer::Release),
            Request::Renew(node, batch) => answer(lane.renew(node, batch), Answer::Renew),
            Request::Inspect(key) => answer(lane.inspect(&key), Answer::Inspect),
            Request::ForceRelease(key) => answer(lane.force_release(&key), Answer::ForceRelease),
        }
    }

    pub(super) fn operation(&self) -> Operation {
        match self {
            Request::Acquire(_) => Operation::Acquire,
            Request::Release(_) => Operation::Release,
            Request::Renew(..) => Operation::Renew,
            Request::Inspect(_) => Operation::Inspect,
            Request::ForceRelease(_) => Operation::ForceRelease,
        }
    }

    /// The keys it touches; none only for an empty batch.
    pub(super) fn keys(&self) -> Vec<&LockKey> {
        match self {
            Request::Renew(_, batch) => batch.iter().map(|member| &*member.key).collect(),
            Request::Acquire(_) | Request::Release(_) | Request::Inspect(_) | Request::ForceRelease(_) => {
                self.first_key().map(|key| &**key).into_iter().collect()
            }
        }
    }

    pub(super) fn first_key(&self) -> Option<&Arc<LockKey>> {
        match self {
            Request::Acquire(request) => Some(&request.key),
            Request::Release(request) => Some(&request.key),
            Request::Renew(_, batch) => batch.first().map(|member| &member.key),
            Request::Inspect(key) | Request::ForceRelease(key) => Some(key),
        }
    }

    /// The earliest moment after which a part of it must not be executed; `None`: it names none.
    pub(super) fn execute_by(&self) -> Option<Instant> {
        match self {
            Request::Acquire(request) => Some(request.execute_by),
            Request::Renew(_, batch) => batch.iter().map(|member| member.execute_by).min(),
            Request::Release(_) | Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// Leaves the first half of a batch; any other request stays whole.
    pub(super) fn halved(self) -> Request {
        match self {
            Request::Renew(node, mut batch) => {
                batch.truncate(batch.len() / 2);
                Request::Renew(node, batch)
            }
            whole => whole,
        }
    }

    /// The answer "came too late", if this kind of request knows it.
    pub(super) fn too_late(self, at: ServerTime) -> Option<Answer> {
        match self {
            Request::Acquire(_) => Some(Answer::Acquire(Ok(AcquireReply::TooLate { at }))),
            Request::Renew(_, batch) => Some(answer_all(batch, |_| RenewalAnswer::TooLate { at })),
            Request::Release(_) | Request::Inspect(_) | Request::ForceRelease(_) => None,
        }
    }

    /// The answer that says what `error` says of a request with this `execute_by` (a release and the like: `None`).
    pub(super) fn failed(self, error: impl Fn(Option<Instant>) -> TransportError) -> Answer {
        match self {
            Request::Acquire(request) => Answer::Acquire(Err(error(Some(request.execute_by)))),
            Request::Release(_) => Answer::Release(Err(error(None))),
            Request::Inspect(_) => Answer::Inspect(Err(error(None))),
            Request::ForceRelease(_) => Answer::ForceRelease(Err(error(None))),
            Request::Renew(_, batch) => {
                answer_all(batch, |member| RenewalAnswer::Failed(error(Some(member.execute_by))))
            }
        }
    }

    /// The answer of a request of which the caller learns nothing; `probe` was taken before it was sent.
    pub(super) fn unknown(self, kind: ErrorKind, probe: Probe) -> Answer {
        self.failed(|limit| {
            TransportError::unknown(kind, probe.not_after(limit), "injected fault: no answer")
        })
    }

    /// The answer of a request that was certainly not executed.
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
