//! Where a caller's answer goes: to a call of its own, or to the list that it is part of.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

use super::{caller::Refusal, pending_grant::PendingGrant};
use crate::{clock::Instant, error::AcquireError, guard};

/// What a queued caller is told.
#[derive(Debug)]
pub(crate) enum Answer {
    PendingGrant(PendingGrant),
    Refused(Refusal),
}

/// Takes one answer. One that is dropped without tells its caller that the engine has ended.
pub(crate) enum ReplyTo {
    Own(oneshot::Sender<Answer>),
    InList(BulkReplyTo),
}

/// One place of a list.
pub(crate) struct BulkReplyTo {
    place: usize,
    joined: Instant,
    /// `None` once it was told.
    list: Option<ListSender>,
}

/// What a list hears of one of its places.
pub(crate) struct Told {
    pub(crate) place: usize,
    /// When it was queued.
    pub(crate) joined: Instant,
    pub(crate) answer: Result<Answer, AcquireError>,
}

/// Never holds more than one answer for each place of the list.
pub(crate) type ListSender = mpsc::UnboundedSender<Told>;

impl ReplyTo {
    /// Whether nobody waits for the answer.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Own(answer_to) => answer_to.is_closed(),
            Self::InList(place) => place.list.as_ref().is_none_or(mpsc::UnboundedSender::is_closed),
        }
    }

    /// Answers. A caller that has gone drops the answer, and an offer in it gives its lease back.
    pub(crate) fn send(self, answer: Answer) {
        match self {
            Self::Own(answer_to) => drop(guard::call(|| answer_to.send(answer))),
            Self::InList(place) => place.tell(Ok(answer)),
        }
    }
}

impl BulkReplyTo {
    pub(crate) fn new(place: usize, joined: Instant, list: ListSender) -> Self {
        Self { place, joined, list: Some(list) }
    }

    pub(crate) fn tell(mut self, answer: Result<Answer, AcquireError>) {
        self.send(answer);
    }

    fn send(&mut self, answer: Result<Answer, AcquireError>) {
        if let Some(list) = self.list.take() {
            let told = Told { place: self.place, joined: self.joined, answer };
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
