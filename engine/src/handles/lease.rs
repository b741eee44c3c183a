use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::field::Empty;

use super::alive::Handle;
use crate::{
    clock::Instant,
    error::{Invalid, NotHeld, ReleaseError, RenewError},
    fencing::FencingToken,
    lease::{
        shared::LeaseCore,
        state::{LeaseState, LossReason},
    },
    log::Span,
    release::{
        end::{self, Receipt},
        in_progress::ReleasedBy,
        send,
    },
    renewal::{
        inbox::Order,
        manual::{AnswerTo, ManualOutcome},
    },
    transport::{ErrorKind, TransportError},
};

/// A lock that is held until it is released, dropped or lost.
///
/// Dropping a lease releases the lock in the background. The drop never blocks and needs no runtime. Prefer
/// [`release`](Self::release): only its answer tells that the lock was held until the end.
/// Note that `let _ = lock.acquire().await?` drops the lease, and so releases the lock, at once.
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    core: Arc<LeaseCore>,
    handle: Option<Handle>,
}

impl Lease {
    pub(crate) fn new(core: Arc<LeaseCore>, handle: Handle) -> Self {
        Self { core, handle: Some(handle) }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.core.key.name()
    }

    /// Whether the lock is held now. Reads only this process's own clock. `true` only before the deadline, and never
    /// again after the first `false`. The answer says nothing about the next moment: see
    /// [`fencing_token`](Self::fencing_token).
    pub fn is_held(&self) -> bool {
        self.core.is_held(self.handle().inner().clock.now())
    }

    /// Returns `Ok` while the lock is held. For use with `?` before each guarded step.
    ///
    /// # Errors
    /// [`NotHeld`] with the reason, if the lease is lost.
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        match self.state() {
            LeaseState::Held | LeaseState::Jeopardy => Ok(()),
            LeaseState::Lost(reason) => Err(NotHeld { reason }),
        }
    }

    /// The lease's state: held, in jeopardy (a renewal was not confirmed), or lost with the reason.
    pub fn state(&self) -> LeaseState {
        self.core.state(self.handle().inner().clock.now())
    }

    /// How long the holder may believe that the lock is held if no further renewal is confirmed; zero if the lease is
    /// lost.
    pub fn remaining(&self) -> Duration {
        let now = self.handle().inner().clock.now();
        if self.core.is_live() { self.core.deadline() - now } else { Duration::ZERO }
    }

    /// Resolves when the lease is lost, at its deadline at the latest (give or take two ticks of 50 ms). Never resolves
    /// if the lease is released before. The future owns everything that it needs.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let core = self.core.clone();
        async move { core.lost().await }
    }

    /// A number that is higher than the number of every earlier holder of this lock. Store it beside the data and
    /// refuse smaller numbers: the lock saves work, the token protects data.
    pub fn fencing_token(&self) -> FencingToken {
        self.core.token
    }

    /// How many times this lock is held in its re-entry scope; 1 without a scope.
    pub fn hold_count(&self) -> u32 {
        self.core.holds()
    }

    /// Asks the server to keep the lock for at least `ttl` from now on. Never shortens the hold. The regular renewals
    /// continue.
    ///
    /// # Errors
    /// - [`RenewError::Lost`]: the lease is lost.
    /// - [`RenewError::Released`]: the lease was released meanwhile.
    /// - [`RenewError::Unknown`]: no definite answer; the deadline has not moved.
    /// - [`RenewError::Invalid`]: the ttl cannot be used.
    /// - [`RenewError::LimitReached`]: `inbox_max` is reached.
    /// - [`RenewError::ShuttingDown`]: the engine ends.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the request.
    pub fn renew(&self, ttl: Duration) -> impl Future<Output = Result<(), RenewError>> + Send + use<> {
        let (inner, core) = (self.handle().inner().clone(), self.core.clone());
        async move {
            inner.config.check_ttl("ttl", ttl, inner.capabilities.ttl_max).map_err(RenewError::Invalid)?;
            let (sender, answer) = oneshot::channel();
            let answer_to = AnswerTo::new(|answer| drop(sender.send(answer)));
            if let Some(reason) = core.loss() {
                return Err(RenewError::Lost(reason));
            }
            if inner.inboxes.is_full(core.key.slot()) {
                return Err(RenewError::LimitReached { limit: "inbox_max", value: inner.config.inbox_max });
            }
            inner.inboxes.push(core.key.slot(), Order::Renew(core.clone(), ttl, answer_to));
            let answer = tokio::select! {
                biased;
                answer = answer => answer,
                reason = core.lost() => return Err(RenewError::Lost(reason)),
                () = inner.ended() => return Err(RenewError::ShuttingDown), // no task empties the inbox any more
            };
            match answer {
                Ok(ManualOutcome::Renewed) => Ok(()),
                Ok(ManualOutcome::Lost(reason)) => Err(RenewError::Lost(reason)),
                Ok(ManualOutcome::Released) => Err(RenewError::Released),
                Ok(ManualOutcome::Failed(last_error)) => Err(RenewError::Unknown(last_error)),
                Err(_) if inner.check_open().is_err() => Err(RenewError::ShuttingDown),
                Err(_) => Err(RenewError::Unknown(renewal_restarted())),
            }
        }
    }

    /// Releases the lock. From this call on the lease is not held, whatever the answer is. `Ok` means that the lock was
    /// held until the end.
    ///
    /// # Errors
    /// - [`ReleaseError::AlreadyLost`]: another client may have held the lock meanwhile.
    /// - [`ReleaseError::ReleasedOrLost`]: the same, unless an earlier, unanswered send of this release ended the hold.
    /// - [`ReleaseError::Unknown`]: no answer within the command timeout, although the release was sent again and
    ///   again. The engine repeats the release in the background.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer; the release goes on.
    pub fn release(mut self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let handle = self.handle.take();
        let receipt =
            handle.as_ref().map(|handle| end::release(handle.inner(), &self.core, ReleasedBy::ByCall));
        let (core, now) = (self.core.clone(), handle.as_ref().map(|handle| handle.inner().clock.now()));
        let span = Span::new(|| {
            tracing::debug_span!(
                "lock.release",
                otel.kind = "client",
                otel.status_code = Empty,
                lock.class = handle.as_ref().map(|handle| handle.inner().events.class(core.class).name()),
                lock.name = core.key.name(),
                lock.outcome = Empty,
                lock.fencing_token = %core.token,
            )
        });
        let answered = async move {
            let _alive = handle;
            match receipt {
                Some(receipt) => answer(receipt, &core, now.unwrap_or_default()).await,
                None => Ok(()),
            }
        };
        async move {
            let result = span.around(answered).await;
            tell_span(&span, &result);
            result
        }
    }

    /// Ends all leases at once. The future returns the result of each release, in the order of `leases`. The releases
    /// of `handle`'s engine are sent in turn.
    pub(crate) fn release_all(
        handle: &Handle,
        leases: Vec<Lease>,
        how: ReleasedBy,
    ) -> impl Future<Output = Vec<Result<(), ReleaseError>>> + Send + use<> {
        let (alive, now) = (handle.clone(), handle.inner().clock.now());
        let (cores, strange) = Self::take_cores(handle, leases);
        let receipts = end::release_in_turn(handle.inner(), cores.iter().cloned(), how);
        async move {
            let mut results = Vec::with_capacity(cores.len() + strange.len());
            let (mut ours, mut strange) = (receipts.into_iter().zip(&cores), strange.into_iter().peekable());
            loop {
                // Each lease of another engine is answered before the lease that came after it.
                if let Some((_, released)) = strange.next_if(|(place, _)| *place == results.len()) {
                    results.push(released.await);
                } else if let Some((receipt, core)) = ours.next() {
                    results.push(answer(receipt, core, now).await);
                } else {
                    break;
                }
            }
            drop(alive);
            results
        }
    }

    // The lease's own engine releases a lease of another engine; its position in the list is kept.
    fn take_cores(handle: &Handle, leases: Vec<Lease>) -> (Vec<Arc<LeaseCore>>, Vec<Strange>) {
        let (mut cores, mut strange): (Vec<_>, Vec<Strange>) = (Vec::new(), Vec::new());
        for (place, mut lease) in leases.into_iter().enumerate() {
            if Arc::ptr_eq(lease.handle().inner(), handle.inner()) {
                cores.push(lease.core.clone());
                lease.handle = None; // the list releases the lease now, so its drop does nothing
            } else {
                strange.push((place, Box::pin(lease.release())));
            }
        }
        (cores, strange)
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("only `release` and `drop` take the handle, and both consume the lease")
    }
}

fn renewal_restarted() -> TransportError {
    TransportError::without_effect(
        ErrorKind::TimedOut,
        None,
        "the engine's renewal was begun again meanwhile",
    )
}

/// The release of a lease of another engine, with the lease's position in the list.
type Strange = (usize, Pin<Box<dyn Future<Output = Result<(), ReleaseError>> + Send>>);

// If the engine ends before the answer arrives, the result is unknown.
async fn answer(receipt: Receipt, core: &LeaseCore, begun: Instant) -> Result<(), ReleaseError> {
    match receipt {
        Receipt::Done(result) => result,
        Receipt::Pending(answer) => {
            answer.await.unwrap_or_else(|_| Err(send::unknown(core.gone_by(), begun, None)))
        }
    }
}

fn tell_span(span: &Span, result: &Result<(), ReleaseError>) {
    let word = match result {
        Ok(()) => "released",
        Err(ReleaseError::AlreadyLost(_)) => "already_lost",
        Err(ReleaseError::ReleasedOrLost) => "released_or_lost",
        Err(ReleaseError::Unknown { .. }) => "unknown",
    };
    span.record("lock.outcome", word);
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            drop(end::release(handle.inner(), &self.core, ReleasedBy::ByDrop));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?}, token {})", self.core.key.name(), self.core.token)
    }
}

impl From<Invalid> for RenewError {
    fn from(invalid: Invalid) -> Self {
        RenewError::Invalid(invalid)
    }
}
