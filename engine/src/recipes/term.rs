//! One term, for metrics: recorded when it begins, and once when it ends, also if the candidate is dropped.

use std::sync::Arc;

use crate::{
    clock::Instant,
    inner::Inner,
    metrics::{Candidacy, LockEvent, TermEnd},
};

/// A term that has begun. Dropping it records that the candidate was dropped.
pub(super) struct Term {
    engine: Arc<Inner>,
    candidacy: Arc<Candidacy>,
    began: Instant,
    is_over: bool,
}

impl Term {
    pub(super) fn begin(engine: &Arc<Inner>, candidacy: &Arc<Candidacy>) -> Self {
        candidacy.set_leading(true);
        engine.events.record_lock(candidacy.labels(), LockEvent::TermBegan);
        let began = engine.clock.now();
        Self { engine: engine.clone(), candidacy: candidacy.clone(), began, is_over: false }
    }

    /// When the term began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Ends the term and records how.
    pub(super) fn end(&mut self, end: TermEnd) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.candidacy.set_leading(false);
        let led = self.engine.clock.now() - self.began;
        self.engine.events.record_lock(self.candidacy.labels(), LockEvent::TermEnded { end, led });
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.end(TermEnd::Dropped);
    }
}
