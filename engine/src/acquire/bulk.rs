//! One name of a bulk call, which acquires a list of names.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    caller::{CallerId, Patience, Returned},
    enqueue::{self, Call, ExplicitTerms},
    reply_to::{BulkReplyTo, ListSender, ReplyTo},
};
use crate::{
    clock::Instant,
    dispatch::{outbox::Routed, permit::Permit, work::Work},
    error::AcquireError,
    inner::Inner,
    key::LockKey,
    lease::shared::Terms,
    metrics::{ClassId, LabelSet},
    routing::slot::Slot,
    transport::TransportError,
};

/// What the names of a list have in common.
pub(crate) struct List {
    pub(crate) inner: Arc<Inner>,
    pub(crate) terms: Terms,
    /// The class of all names; `None`: each name has the class that the rules give it.
    pub(crate) class: Option<ClassId>,
    pub(crate) asked: ExplicitTerms,
    /// How long the caller of each name waits at most, from the moment at which that name is queued. `None`: no limit.
    pub(crate) wait: Option<Duration>,
    /// The number of the caller of the first name. The callers of the other names have the numbers that follow.
    pub(crate) first: CallerId,
    pub(crate) answers_to: ListSender,
}

/// One name of a list. The call keeps its permit until the first definite answer: a caller that waits for a lock that
/// is held keeps none.
pub(crate) struct BulkAcquireCall {
    pub(crate) key: Arc<LockKey>,
    pub(crate) place: usize,
    pub(crate) list: Arc<List>,
    /// `None`: it was not queued before.
    pub(crate) returned: Option<Returned>,
}

impl List {
    /// The labels of the metrics of this lock.
    pub(crate) fn labels_of(&self, key: &LockKey) -> LabelSet {
        LabelSet::exclusive(self.class.unwrap_or_else(|| self.inner.events.classes.by_rule(key.name())))
    }

    /// The caller of the name at this place.
    pub(crate) fn caller(&self, place: usize) -> CallerId {
        CallerId(self.first.0 + place as u64)
    }
}

impl BulkAcquireCall {
    /// Queues the caller.
    pub(crate) fn queue_up(self, permit: Option<Permit>) {
        let inner = &self.list.inner.clone();
        let joined = self.returned.map_or_else(|| inner.clock.now(), |returned| returned.joined);
        let mut reply_to = Some(ReplyTo::InList(self.reply_to(joined)));
        let (id, late) = (self.list.caller(self.place), self.late());
        let call = self.call(joined);
        let queued = enqueue::queue_up(inner, &call, (id, &mut reply_to), late, permit);
        if let (Err(error), Some(ReplyTo::InList(place))) = (queued, reply_to) {
            place.tell(Err(error));
        }
    }

    fn reply_to(&self, joined: Instant) -> BulkReplyTo {
        BulkReplyTo::new(self.place, Returned { joined, late: self.late() }, self.list.answers_to.clone())
    }

    fn late(&self) -> u8 {
        self.returned.map_or(0, |returned| returned.late)
    }

    fn call(self, joined: Instant) -> Call {
        let terms = Terms { labels: self.list.labels_of(&self.key), ..self.list.terms };
        let patience = Patience::Wait(self.list.wait.map(|time| joined + time));
        Call { key: self.key, terms, asked: self.list.asked, patience, scope: None, joined }
    }
}

impl Routed for BulkAcquireCall {
    fn slot(&self) -> Slot {
        self.key.slot()
    }
}

impl Work for BulkAcquireCall {
    fn is_acquire(&self) -> bool {
        true
    }

    fn begin(self: Box<Self>, permit: Permit) {
        self.queue_up(Some(permit));
    }

    // Dropping a `BulkReplyTo` without an answer means that the engine has ended.
    fn reject(self: Box<Self>) {
        drop(self.reply_to(Instant::default()));
    }

    fn give_up(self: Box<Self>, last_error: TransportError) {
        let inner = &self.list.inner;
        let after = inner.config.unavailable_after();
        let error = AcquireError::Unavailable { after, last_error: Some(last_error) };
        self.reply_to(inner.clock.now()).tell(Err(error));
    }
}

impl fmt::Debug for BulkAcquireCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkAcquireCall({:?})", self.key)
    }
}
