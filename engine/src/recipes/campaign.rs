//! A campaign: the candidate asks for the lock until it is granted, or refused for good.

use std::{sync::Arc, time::Duration};

use super::{
    leader_watch::{Standing, Status},
    pauses::Pauses,
    sleep::sleep,
    term::Term,
};
use crate::{AcquireError, Lease, Lock, clock::Instant, metrics::Candidacy};

/// One candidate's campaigns and terms.
pub(super) struct Campaign {
    lock: Lock,
    status: Status,
    pauses: Pauses,
}

impl Campaign {
    pub(super) fn new(lock: Lock, status: Status) -> Self {
        Self { lock: lock.without_limits(), status, pauses: Pauses::default() }
    }

    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    /// Stands in the election until the candidacy is dropped.
    ///
    /// # Errors
    /// `Invalid`: the lock does not exclude other callers, or its name cannot be used.
    pub(super) fn stand(&self) -> Result<Arc<Candidacy>, AcquireError> {
        self.lock.engine().process.check()?;
        self.lock.check_excludes()?;
        let key = self.lock.lock_key()?;
        Ok(Arc::new(self.lock.engine().events.elections.stand(key.name(), self.lock.labels())))
    }

    /// Campaigns until the lock is granted.
    ///
    /// # Errors
    /// What does not go away by itself: `Invalid`, `Refused`, `Unsupported`, `ShuttingDown` and so on. Without an
    /// answer the candidate tries again.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub(super) async fn win(&self) -> Result<Lease, AcquireError> {
        self.status.set(Standing::Following);
        let mut is_known_held = false;
        loop {
            match self.ask(is_known_held).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {
                    is_known_held = true;
                    self.status.set(Standing::Following);
                }
                Err(AcquireError::Unavailable { .. } | AcquireError::LimitReached { .. }) => {
                    is_known_held = false;
                    self.status.set(Standing::Unavailable);
                    self.sleep(Pauses::after_no_answer(self.jitter())).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    // The first definite answer decides whether the candidate follows. A waiting call would tell only a grant.
    async fn ask(&self, is_known_held: bool) -> Result<Option<Lease>, AcquireError> {
        if is_known_held { self.lock.acquire().await.map(Some) } else { self.lock.try_acquire().await }
    }

    pub(super) fn begin_term(&self, lease: &Lease, candidacy: &Arc<Candidacy>) -> Term {
        let term = Term::begin(lease.engine(), candidacy);
        self.status.set(Standing::Leading(lease.core().clone(), lease.engine().clock));
        term
    }

    /// The term is over, and the candidate campaigns again after a pause.
    pub(super) async fn pause_after(&mut self, began: Instant) {
        let term = self.now() - began;
        let pause = self.pauses.after_term(term, self.jitter());
        self.sleep(pause).await;
    }

    pub(super) fn now(&self) -> Instant {
        self.lock.engine().clock.now()
    }

    // The id of the client is random: candidates that lose together come back at different times.
    fn jitter(&self) -> u8 {
        let engine = self.lock.engine();
        engine.mint.client().as_bytes()[0].wrapping_add(engine.jitter() as u8)
    }

    async fn sleep(&self, time: Duration) {
        sleep(self.lock.engine(), time).await;
    }
}
