//! The reply slot of a caller: the answer goes to a single call, or to the bulk call that the caller is part of.

use std::fmt;

use tokio::sync::mpsc;

use super::{
    caller::{Refusal, Returned},
    pending_grant::PendingGrant,
};
use crate::{answers::AnswerSender, error::AcquireError, guard};

/// The answer to a queued caller.
#[derive(Debug)]
pub(crate) enum Answer {
    PendingGrant(PendingGrant),
    Refused(Refusal),
}

/// Takes one answer. Dropping it without an answer means to its caller that the engine has ended.
pub(crate) enum ReplyTo {
    Own(AnswerSender<Answer>),
    InList(BulkReplyTo),
}

/// The reply slot of one place in the list of a bulk call.
pub(crate) struct BulkReplyTo {
    place: usize,
    queued: Returned,
    /// `None` once the place has its answer.
    list: Option<ListSender>,
}

/// The answer to one place of a list.
pub(crate) struct Told {
    pub(crate) place: usize,
    /// When its caller was queued first, and how many grants it did not take in time.
    pub(crate) queued: Returned,
    pub(crate) answer: Result<Answer, AcquireError>,
}

/// Sends the answers to a bulk call. The channel has no limit of its own, but it never holds more than one answer for
/// each place of the list.
pub(crate) type ListSender = mpsc::UnboundedSender<Told>;

impl ReplyTo {
    /// Whether the caller was dropped, so that no task waits for the answer.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Own(answer_to) => answer_to.is_closed(),
            Self::InList(place) => place.list.as_ref().is_none_or(mpsc::UnboundedSender::is_closed),
        }
    }

    /// Answers. If the caller was dropped, the answer is dropped, and a pending grant in it releases its lease.
    pub(crate) fn send(self, answer: Answer) {
        match self {
            Self::Own(answer_to) => answer_to.send(answer),
            Self::InList(place) => place.tell(Ok(answer)),
        }
    }
}

impl BulkReplyTo {
    pub(crate) fn new(place: usize, queued: Returned, list: ListSender) -> Self {
        Self { place, queued, list: Some(list) }
    }

    pub(crate) fn tell(mut self, answer: Result<Answer, AcquireError>) {
        self.send(answer);
    }

    fn send(&mut self, answer: Result<Answer, AcquireError>) {
        if let Some(list) = self.list.take() {
            let told = Told { place: self.place, queued: self.queued, answer };
            let _ = guard::call(|| list.send(told));
        }
    }
}

impl Drop for BulkReplyTo {
    fn drop(&mut self) {
        self.send(Err(AcquireError::ShuttingDown));
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "ReplyTo::Own",
            Self::InList(_) => "ReplyTo::InList",
        })
    }
}
