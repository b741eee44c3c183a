//! One acquire call, from its begin to what it was told. It is told once, whatever becomes of it.

use std::sync::Arc;

use super::{arrival::Call, offer::TakenLease};
use crate::{clock::Instant, error::AcquireError, key::LockKey, metrics::ClassId, works::Works};

/// A call that is not over. Dropping it tells that it was cancelled.
pub(crate) struct Wait<'a> {
    works: &'a Works,
    key: Arc<LockKey>,
    class: ClassId,
    since: Instant,
    over: bool,
}

impl<'a> Wait<'a> {
    pub(crate) fn begin(works: &'a Works, call: &Call) -> Self {
        let class = call.terms.class;
        works.events.wait_started(works.events.class(class));
        Self { works, key: call.key.clone(), class, since: call.joined, over: false }
    }

    /// The call is over.
    pub(crate) fn end(mut self, outcome: &Result<Option<TakenLease>, AcquireError>) {
        self.over = true;
        let events = &self.works.events;
        let class = events.class(self.class);
        match outcome {
            Ok(Some(taken)) if taken.first => self.tell_granted(taken),
            Ok(Some(_)) => events.shared(class),
            Ok(None) => events.refused(class),
            Err(AcquireError::TimedOut { waited }) => {
                self.works.hot.note(&self.key, *waited);
                events.timed_out(class, *waited);
            }
            Err(AcquireError::Unavailable { trouble, .. }) => events.failed(class, trouble.as_ref()),
            Err(AcquireError::Refused(trouble)) => events.failed(class, Some(trouble)),
            Err(_) => events.failed(class, None),
        }
    }

    fn tell_granted(&self, taken: &TakenLease) {
        let waited = taken.at - self.since;
        if taken.contended {
            self.works.hot.note(&self.key, waited);
        }
        self.works.events.totals.granted.add(1);
        self.works.events.granted(self.works.events.class(self.class), waited, taken.contended);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.works.events.cancelled(self.works.events.class(self.class));
        }
    }
}
