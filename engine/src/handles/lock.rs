//! The lock: exclusive, re-entrant by scope, renewed until it is released.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{alive::Handle, lease::Lease};
use crate::{
    acquire::{
        caller::{Patience, Refusal, ScopeId},
        enqueue::{self, Call, Enqueued, ExplicitTerms},
        pending_grant::{Accept, AcceptedLease, PendingGrant},
        reply_to::Answer,
        wait::Wait,
    },
    clock::Instant,
    error::{AcquireError, InspectError, Invalid, RunError},
    inner::Inner,
    key::{LockKey, NameFault},
    lease::{shared::Terms, state::LeaseState},
    metrics::ClassId,
    transport::{BoxFuture, Inspection, Lane, Remaining, TransportError},
};

/// A lock by its name, and how it is asked for. The handle is the builder: each method returns a changed handle, and
/// one handle can be used again and again, also at once.
///
/// Two calls with handles of the same name exclude each other, also within one task, unless both were given the
/// same [`reentry`](Self::reentry) scope.
#[derive(Clone)]
#[must_use = "a lock handle does nothing until it is acquired"]
pub struct Lock {
    handle: Handle,
    key: Result<Arc<LockKey>, (String, NameFault)>,
    class: ClassId,
    wait: Option<Duration>,
    asked: ExplicitTerms,
    scope: Option<ReentryScope>,
}

/// A re-entry scope: calls made with it share one hold of a lock, counted, instead of excluding each other. Async
/// tasks have no thread identity, so re-entry is explicit. Made by [`Engine::reentry`](crate::Engine::reentry).
#[derive(Clone)]
pub struct ReentryScope {
    handle: Handle,
    id: ScopeId,
}

/// Who holds a lock, as anybody can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Opaque text that names the owner on the server. Other clients' owners look as they like.
    pub owner: String,
    /// How often it is held. 1 for Leasehold's own; a Java client may show more.
    pub hold_count: u64,
    /// How long until it runs out unless it is renewed; `None`: it has no expiry, or it is not known.
    pub remaining: Option<Duration>,
}

impl ReentryScope {
    pub(crate) fn new(handle: Handle, id: ScopeId) -> Self {
        Self { handle, id }
    }
}

impl Lock {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        let key =
            LockKey::new(&handle.inner().config.name_prefix, name).map_err(|fault| (name.to_owned(), fault));
        let class = handle.inner().events.classes.by_rule(name);
        Self { handle, key, class, wait: None, asked: ExplicitTerms::default(), scope: None }
    }

    /// What the lock counts as in metrics: one of at most 64 names an engine, made when it is first used. Default: as the
    /// rules of [`EngineConfig::classes`](crate::EngineConfig::classes) say, else `default`. What is one too many counts
    /// as `_other`. The class of a lease is that of its caller.
    pub fn class(mut self, name: &str) -> Self {
        self.class = self.handle.inner().events.classes.get(name);
        self
    }

    /// How long [`acquire`](Self::acquire) waits for a lock that is held, from the call; at most ten years. Default:
    /// without limit.
    ///
    /// The call returns within this time and one command timeout (default 1 s): it does not leave before an ask that was
    /// sent for it is answered, unless the lock is known to be held. So a wait of zero asks once, and takes a lock that
    /// is free.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// How long the server keeps the lock unless it is renewed. Default: the engine's, 30 s. At least 1 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// Does not renew: the lease ends after its ttl whatever happens. Redisson calls this `leaseTime`.
    pub fn no_renewal(mut self) -> Self {
        self.asked.no_renewal = true;
        self
    }

    /// Renews for this long at most, counted from the moment the lease is taken; then it is lost at its deadline
    /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)). A holder that hangs does not hold for ever. Default: no limit.
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.asked.max_hold = Some(time);
        self
    }

    /// Shares one hold with other calls of this scope. The inner lease has the deadline, renewal and `max_hold` of the
    /// outer one; naming others is an error.
    pub fn reentry(mut self, scope: &ReentryScope) -> Self {
        self.scope = Some(scope.clone());
        self
    }

    /// Waits for the lock and holds it until it is released, dropped or lost. Callers of one engine are served in
    /// order; between processes no order is promised. The future owns what it needs.
    ///
    /// # Errors
    /// After [`wait`](Self::wait), [`AcquireError::TimedOut`] if the lock was known to be held since the call, and
    /// [`AcquireError::Unavailable`] if no definite answer came; the latter also after `unavailable_after` (default 10 s)
    /// without a definite answer. Values that cannot be used; limits; shutdown.
    ///
    /// # Cancel safety
    /// Dropping it leaves the queue. A lease that was granted meanwhile is given back.
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move {
            let call = lock.call(false)?;
            match lock.ask(call).await? {
                Some(lease) => Ok(lease),
                None => unreachable!("a caller that waits is never told that the lock is held"),
            }
        }
    }

    /// Takes the lock if nobody holds it. `None`: somebody does. At most one command, and none if it is known to be
    /// held.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire): no definite answer within `unavailable_after` is an error, not `None`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Lease>, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move {
            let call = lock.call(true)?;
            lock.ask(call).await
        }
    }

    /// Acquires, runs `work` with the lease, and releases. At loss, or when this future is dropped, the work's future is
    /// dropped *before* anything is released; what it spawned or blocks on is not stopped: such work looks at
    /// [`Lease::ensure_held`].
    ///
    /// # Errors
    /// The first that applies of: the acquire's, the work's, the loss, the release's.
    ///
    /// # Cancel safety
    /// Dropping it drops the work, then gives the lease back.
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, RunError<E>>> + use<T, E, W>
    where
        W: AsyncFnOnce(&Lease) -> Result<T, E>,
    {
        let acquire = self.acquire();
        async move {
            let lease = acquire.await.map_err(RunError::Acquire)?;
            let outcome = {
                let (work, lost) = (work(&lease), lease.lost());
                tokio::select! {
                    biased;
                    done = work => Ok(done),
                    reason = lost => Err(reason),
                }
            };
            match outcome {
                Err(reason) => Err(RunError::Lost(reason)),
                Ok(Err(error)) => {
                    let _ = lease.release().await; // the work's error is the one to tell
                    Err(RunError::Work(error))
                }
                Ok(Ok(done)) => finish(lease).await.map(|()| done),
            }
        }
    }

    /// Who holds the lock, asked of the server. `None`: nobody.
    ///
    /// # Errors
    /// No answer, or a name that cannot be used.
    ///
    /// # Cancel safety
    /// Dropping it gives up the answer.
    pub fn holder(&self) -> impl Future<Output = Result<Option<Holder>, InspectError>> + Send + use<> {
        let asked = self.on_calls(|lane, key| Box::pin(async move { lane.inspect(&key).await }));
        async move { asked.await.map(holder_of) }
    }

    /// Whether anybody holds the lock, asked of the server.
    ///
    /// # Errors
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    /// As [`holder`](Self::holder).
    pub fn is_locked(&self) -> impl Future<Output = Result<bool, InspectError>> + Send + use<> {
        let holder = self.holder();
        async move { Ok(holder.await?.is_some()) }
    }

    /// Ends whatever hold there is, whoever has it, and wakes those who wait. For operators: the holder is not asked,
    /// and learns it at its next renewal. `true`: somebody held it.
    ///
    /// # Errors
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    /// Dropping it gives up the answer, not the request.
    pub fn force_release(&self) -> impl Future<Output = Result<bool, InspectError>> + Send + use<> {
        self.on_calls(|lane, key| Box::pin(async move { lane.force_release(&key).await }))
    }

    fn on_calls<T: Send + 'static, R: Request<T>>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<T, InspectError>> + Send + use<T, R> {
        let inner = self.handle.inner().clone();
        let handle = self.handle.clone();
        let (sender, answer) = tokio::sync::oneshot::channel();
        let key =
            inner.check_open().map_err(|_| InspectError::ShuttingDown).and_then(|()| self.checked_key());
        let begun = key.map(|key| {
            let asking = inner.clone();
            inner.spawn(async move {
                let answer = match asking.calls.lane() {
                    Some(lane) => request(lane, key).await,
                    None => Err(asking.calls.last_error()),
                };
                let _ = sender.send(answer);
            });
        });
        async move {
            let _alive = handle;
            begun?;
            answer.await.map_err(|_| InspectError::ShuttingDown)?.map_err(InspectError::Transport)
        }
    }

    fn checked_key<E: From<Invalid>>(&self) -> Result<Arc<LockKey>, E> {
        self.key.clone().map_err(|(name, fault)| bad_name(&name, &fault.to_string()).into())
    }

    fn call(&self, only_try: bool) -> Result<Call, AcquireError> {
        let inner = self.handle.inner();
        inner.check_open()?;
        let joined = inner.clock.now();
        let wait = checked_wait(self.wait)?.map(|time| joined + time);
        let patience = if only_try { Patience::Try } else { Patience::Wait(wait) };
        let key = self.checked_key::<AcquireError>()?;
        let terms = checked_terms(inner, self.asked, self.class)?;
        Ok(Call { key, terms, asked: self.asked, patience, scope: self.checked_scope()?, joined })
    }

    fn checked_scope(&self) -> Result<Option<ScopeId>, Invalid> {
        let Some(scope) = &self.scope else { return Ok(None) };
        if !Arc::ptr_eq(scope.handle.inner(), self.handle.inner()) {
            return Err(Invalid::new(
                "reentry",
                "a scope",
                "belongs to another engine; make one with this engine's reentry()",
            ));
        }
        Ok(Some(scope.id))
    }

    async fn ask(&self, call: Call) -> Result<Option<Lease>, AcquireError> {
        let inner = self.handle.inner();
        let wait = Wait::begin(inner, &call);
        let outcome = wait.span().around(self.outcome(&call)).await;
        wait.end(&outcome);
        let taken = outcome?;
        Ok(taken.map(|taken| Lease::new(taken.into_lease(), self.handle.clone())))
    }

    // A grant that came too late to be taken is given back, and its caller is queued again at the head.
    async fn outcome(&self, call: &Call) -> Result<Option<AcceptedLease>, AcquireError> {
        let inner = self.handle.inner();
        let mut ahead = false;
        loop {
            let pending_grant = match enqueue::join(inner, call, ahead)? {
                Enqueued::Held => return Ok(None),
                Enqueued::Shared(pending_grant) => pending_grant,
                Enqueued::Queued(answer, place) => {
                    let answer = answer.await;
                    place.answered();
                    match answer.map_err(|_| AcquireError::ShuttingDown)? {
                        Answer::PendingGrant(pending_grant) => pending_grant,
                        Answer::Refused(refusal) => {
                            return refused(inner, refusal, call.joined).map_or(Ok(None), Err);
                        }
                    }
                }
            };
            if let Some(taken) = take(inner, pending_grant)? {
                return Ok(Some(taken));
            }
            ahead = true;
        }
    }
}

/// Takes an offer of the engine. `None`: it came too late, and its caller is to be queued again.
///
/// # Errors
/// The engine holds as many leases as it may.
pub(super) fn take(
    inner: &Inner,
    pending_grant: PendingGrant,
) -> Result<Option<AcceptedLease>, AcquireError> {
    match pending_grant.take() {
        Accept::Lease(taken) => Ok(Some(taken)),
        Accept::TooLate => Ok(None),
        Accept::Full => {
            let value = inner.config.leases_max;
            Err(AcquireError::LimitReached { limit: "leases_max", value })
        }
    }
}

/// What a caller that was queued since `joined` is told. `None`: it only tried, and somebody holds the lock.
pub(super) fn refused(inner: &Inner, refusal: Refusal, joined: Instant) -> Option<AcquireError> {
    match refusal {
        Refusal::Held => None,
        Refusal::TimedOut => Some(AcquireError::TimedOut { waited: inner.clock.now() - joined }),
        Refusal::Unavailable { after, last_error } => Some(AcquireError::Unavailable { after, last_error }),
        Refusal::Failed(last_error) => Some(AcquireError::Refused(last_error)),
    }
}

pub(super) fn bad_name(name: &str, remedy: &str) -> Invalid {
    let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
    Invalid::new("name", format_args!("{shown:?}"), remedy)
}

pub(super) fn checked_wait(wait: Option<Duration>) -> Result<Option<Duration>, Invalid> {
    match wait {
        Some(time) if time > WAIT_MAX => {
            let remedy = format!("must be at most {WAIT_MAX:?}; leave wait out to wait without limit");
            Err(Invalid::new("wait", format_args!("{time:?}"), remedy))
        }
        wait => Ok(wait),
    }
}

pub(super) fn checked_terms(inner: &Inner, asked: ExplicitTerms, class: ClassId) -> Result<Terms, Invalid> {
    let ttl = asked.ttl.unwrap_or(inner.config.ttl());
    inner.config.check_ttl("ttl", ttl, inner.capabilities.ttl_max)?;
    if asked.max_hold == Some(Duration::ZERO) {
        return Err(Invalid::new("max_hold", "0s", "must be longer; leave it out for no limit"));
    }
    Ok(Terms { ttl, renewed: !asked.no_renewal, max_hold: asked.max_hold, class })
}

/// One request of the calls lane, made on the calls thread.
trait Request<T>:
    FnOnce(Arc<dyn Lane>, Arc<LockKey>) -> BoxFuture<'static, Result<T, TransportError>> + Send + 'static
{
}
impl<T, F> Request<T> for F where
    F: FnOnce(Arc<dyn Lane>, Arc<LockKey>) -> BoxFuture<'static, Result<T, TransportError>> + Send + 'static
{
}

async fn finish<E>(lease: Lease) -> Result<(), RunError<E>> {
    let lost = lease.state();
    if let LeaseState::Lost(reason) = lost {
        return Err(RunError::Lost(reason));
    }
    lease.release().await.map_err(RunError::Release)
}

// A foreign key may show several holds; the first stands for them.
fn holder_of(inspection: Inspection) -> Option<Holder> {
    let remaining = match inspection.remaining {
        Remaining::For(left) => Some(left),
        Remaining::NoExpiry | Remaining::NotKnown => None,
    };
    let hold = inspection.holds.into_iter().next()?;
    Some(Holder { owner: hold.owner, hold_count: hold.count, remaining })
}

impl From<Invalid> for InspectError {
    fn from(invalid: Invalid) -> Self {
        InspectError::Invalid(invalid)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({:?}, {:?})", self.key, self.asked)
    }
}

impl fmt::Debug for ReentryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReentryScope({:?})", self.id)
    }
}

/// Ten years: whoever waits longer means for ever.
const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
const NAME_SHOWN_MAX: usize = 80;
