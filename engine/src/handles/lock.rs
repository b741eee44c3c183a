//! The lock: exclusive, re-entrant by scope, renewed until it is released. Its kind says which token it has, and how its
//! callers wait.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use super::{
    alive::Handle,
    description::{Description, Holder, Known},
    lease::Lease,
};
use crate::{
    acquire::{
        caller::{Patience, Refusal, ScopeId},
        enqueue::{self, Call, Enqueued, ExplicitTerms},
        forced_release::ForcedRelease,
        pending_grant::{Accept, AcceptedLease, PendingGrant},
        reply_to::Answer,
        wait::Wait,
    },
    clock::Instant,
    config::WAIT_MAX,
    error::{AcquireError, InspectError, Invalid, RunError},
    inner::Inner,
    key::{LockKey, NameFault},
    lease::{shared::Terms, state::LeaseState},
    metrics::{ClassId, LabelSet},
    owner::Owner,
    transport::{BoxFuture, HoldKind, Inspection, Lane, TransportError},
};

/// A handle of a lock, and how it is acquired. The handle is the builder: each method returns a changed handle. A
/// handle can be used many times, also by several tasks at once. [`Engine::lock`](crate::Engine::lock),
/// [`Engine::fenced_lock`](crate::Engine::fenced_lock), [`Engine::spin_lock`](crate::Engine::spin_lock) and
/// [`Engine::fair_lock`](crate::Engine::fair_lock) make it, and so do `read()` and `write()` of a
/// [`RwLock`](crate::RwLock).
///
/// Two calls with handles of the same name exclude each other, whatever the kinds of the locks, also within one task.
/// Two readers do not, and calls with the same [`reentry`](Self::reentry) scope do not.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
///
/// let lock = engine.lock("acct:7").wait(Duration::from_secs(5)).ttl(Duration::from_secs(10));
/// let lease = lock.acquire().await?;
/// lease.ensure_held()?; // before each guarded step
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock handle does nothing until it is acquired"]
pub struct Lock {
    handle: Handle,
    key: Result<Arc<LockKey>, (String, NameFault)>,
    kind: HoldKind,
    class: ClassId,
    wait: Option<Duration>,
    asked: ExplicitTerms,
    scope: Option<ReentryScope>,
}

/// A re-entry scope. Calls with the same scope share one hold of a lock, and the engine counts their leases. Async
/// tasks have no identity as threads have, so the caller names the scope. [`Engine::reentry`](crate::Engine::reentry)
/// makes it.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let scope = engine.reentry();
/// let lock = engine.lock("acct:7").reentry(&scope);
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same hold: no command is sent
/// inner.release().await?;
/// assert!(outer.is_held()); // until the last lease of the scope is released
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReentryScope {
    handle: Handle,
    id: ScopeId,
}

impl ReentryScope {
    pub(crate) fn new(handle: Handle, id: ScopeId) -> Self {
        Self { handle, id }
    }
}

impl Lock {
    pub(crate) fn new(handle: Handle, name: &str, kind: HoldKind) -> Self {
        let prefix = &handle.inner().config.name_prefix;
        let key = LockKey::with_family(prefix, name, kind.family()).map_err(|fault| (name.to_owned(), fault));
        let class = handle.inner().events.classes.by_rule(name);
        Self { handle, key, kind, class, wait: None, asked: ExplicitTerms::default(), scope: None }
    }

    /// The lock's name, without the engine's `name_prefix`, also if it cannot be used.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// assert_eq!(engine.lock("orders:42").name(), "orders:42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        match &self.key {
            Ok(key) => key.name(),
            Err((name, _)) => name,
        }
    }

    /// Sets the class that the lock counts as in metrics. An engine has at most 64 classes, and makes a class when it
    /// is first used. Default: the class that [`EngineConfig::classes`](crate::EngineConfig::classes) gives to the
    /// name, else `default`. Every further class counts as `_other`. The class of a lease is that of its caller.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").class("orders").acquire().await?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn class(mut self, name: &str) -> Self {
        self.class = self.handle.inner().events.classes.get(name);
        self
    }

    /// Sets how long [`acquire`](Self::acquire) waits for a lock that is held, counted from the call. At most ten
    /// years. Default: that of the engine's settings, [`wait_ms`](crate::EngineConfig::wait_ms), which is no limit.
    ///
    /// The call returns within this time and one command timeout (default 1 s). The extra time is for an acquire
    /// command that was sent and is not answered yet; the call does not wait for it if the lock is known to be held. So
    /// a wait of zero asks the server once, and takes a lock that is free.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::AcquireError;
    ///
    /// let held = engine.lock("report").acquire().await?;
    /// let second = engine.lock("report").wait(Duration::from_millis(50)).acquire().await;
    /// assert!(matches!(second, Err(AcquireError::TimedOut { .. })));
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// Sets how long the server keeps the lock unless it is renewed. Default: the engine's ttl, 30 s. At least 1 s; at most
    /// 30 days on Redis, and at most [`restart_grace`](crate::EngineBuilder::restart_grace) if that is set and not zero.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let lease = engine.lock("orders:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert!(lease.remaining() <= Duration::from_millis(9_500)); // 5 % earlier than the server
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// Switches automatic renewal off: the lease ends at its deadline, one ttl less the margin (5 %, at least 100 ms) after
    /// the acquire was sent, unless the holder calls [`Lease::renew`](crate::Lease::renew). Redisson calls this `leaseTime`.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// // The job has 9.5 s. The server frees the lock after 10 s, even if the job hangs.
    /// let lease = engine.lock("nightly").ttl(Duration::from_secs(10)).no_renewal().acquire().await?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_renewal(mut self) -> Self {
        self.asked.no_renewal = true;
        self
    }

    /// Sets for how long the lease is renewed, counted from the moment the caller takes the lease. After that the lease
    /// is lost at its deadline, with [`LossReason::MaxHold`](crate::LossReason::MaxHold). So a holder that hangs does
    /// not hold the lock for ever. Default: that of the engine's settings,
    /// [`max_hold_ms`](crate::EngineConfig::max_hold_ms), which is no limit. `Duration::MAX` is no limit too.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    ///
    /// let lease = engine.lock("report").max_hold(Duration::from_secs(600)).acquire().await?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.asked.max_hold = Some(time);
        self
    }

    /// Shares one hold with the other calls of this scope. An inner lease has the deadline, the renewal and the
    /// `max_hold` of the outer lease. An inner call that sets a different ttl, renewal or `max_hold` is an error. So is
    /// an inner call with another kind of lock: the token of the outer lease is not one of that kind.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let scope = engine.reentry();
    /// let outer = engine.lock("acct:7").reentry(&scope).acquire().await?;
    /// // A function that is called with the scope locks again, and does not wait for its own caller.
    /// let inner = engine.lock("acct:7").reentry(&scope).acquire().await?;
    /// assert_eq!(outer.hold_count(), 2);
    /// # drop(inner);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentry(mut self, scope: &ReentryScope) -> Self {
        self.scope = Some(scope.clone());
        self
    }

    /// Waits for the lock, and returns a lease that is held until it is released, dropped or lost. Callers of one
    /// engine are served in the order in which they came. Between processes there is no order, except for a
    /// [fair lock](crate::Engine::fair_lock). The future owns what it needs, so it can be spawned.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`]: the [`wait`](Self::wait) is over, and the lock was known to be held since the call.
    /// [`AcquireError::Unavailable`]: the wait is over without a definite answer, or no definite answer came for
    /// `unavailable_after` (default 10 s). [`AcquireError::Invalid`]: a value of the call cannot be used.
    /// [`AcquireError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`AcquireError::Lost`]: the re-entry scope has lost this lock and still keeps a lease of it.
    /// [`AcquireError::LimitReached`]: `leases_max`, `waiters_max` or `inbox_max` is reached.
    /// [`AcquireError::WouldDeadlock`]: the re-entry scope reads this lock, so it cannot write.
    /// [`AcquireError::Unsupported`]: the transport has no lock of this kind. [`AcquireError::ShuttingDown`]: the engine
    /// is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future removes the caller from the queue. If a lease was granted meanwhile, the engine releases it. If the
    /// future is alive and not polled for 200 ms, the engine gives its grant to the next caller of this engine
    /// ([waiting](crate::guide::waiting)).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::AcquireError;
    ///
    /// match engine.lock("orders:42").wait(Duration::from_secs(2)).acquire().await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(AcquireError::TimedOut { .. }) => println!("409: another request works on this order"),
    ///     Err(AcquireError::Unavailable { .. }) => println!("503: the lock servers do not answer"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move {
            let call = lock.call(false)?;
            match lock.ask(&call).await? {
                Some(taken) => Ok(Lease::new(taken.into_lease(), lock.handle)),
                None => unreachable!("a caller that waits is never told that the lock is held"),
            }
        }
    }

    /// Takes the lock if it is free. `None`: the lock is held. The call sends at most one acquire command, and none if
    /// the lock is known to be held: because a caller of this engine waits for it, or because this engine holds it and the server
    /// has said so within the last second.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). No definite answer within `unavailable_after` (default 10 s) is an error, not
    /// `None`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// if let Some(lease) = engine.lock("nightly").try_acquire().await? {
    ///     println!("this process runs the nightly job");
    ///     lease.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Lease>, AcquireError>> + Send + use<> {
        let lock = self.clone();
        async move {
            let call = lock.call(true)?;
            let taken = lock.ask(&call).await?;
            Ok(taken.map(|taken| Lease::new(taken.into_lease(), lock.handle)))
        }
    }

    /// Acquires the lock, runs `work` with the lease, and releases the lock. When the lease is lost, or when this
    /// future is dropped, the future of the work is dropped *before* the release is sent. Tasks that the work has
    /// spawned, and code that blocks, are not stopped. Such code has to check [`Lease::ensure_held`].
    ///
    /// # Errors
    /// The first of these that applies: [`RunError::Acquire`], [`RunError::Work`], [`RunError::Lost`],
    /// [`RunError::Release`]. If the work fails with an `anyhow::Error` or a `Box<dyn Error + Send + Sync>`,
    /// `.map_err(RunError::boxed)?` passes the error on.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, then releases the lease.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::RunError;
    ///
    /// let done = engine.lock("acct:7").run(async |lease| {
    ///     lease.ensure_held()?;
    ///     Ok::<_, leasehold::NotHeld>(42) // names the error type of the work
    /// });
    /// match done.await {
    ///     Ok(number) => println!("done: {number}"),
    ///     Err(RunError::Lost(reason)) => println!("the work was stopped: {reason}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
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

    /// Asks the server which owner holds the lock. `None`: the lock is free. A lock may have several holders:
    /// [`describe`](Self::describe) tells all of them.
    ///
    /// # Errors
    /// [`InspectError::Invalid`]: the name cannot be used. [`InspectError::Transport`]: no answer, or a refusal.
    /// [`InspectError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// if let Some(holder) = engine.lock("orders:42").holder().await? {
    ///     println!("held by {} for at most {:?}", holder.owner, holder.remaining);
    /// }
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(&self) -> impl Future<Output = Result<Option<Holder>, InspectError>> + Send + use<> {
        let described = self.describe();
        async move { Ok(described.await?.holders.into_iter().next()) }
    }

    /// Asks the server for everything that it shows of the lock: all holders, how the lock is held, how long it lasts,
    /// and the line of a fair lock. The engine adds what it knows of its own holds, and how many of its callers wait.
    /// The answer may be out of date when it arrives, so it is for logs and for operators.
    ///
    /// # Errors
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    /// As [`holder`](Self::holder).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LockMode;
    ///
    /// let prices = engine.rw_lock("prices");
    /// let lease = prices.read().acquire().await?;
    /// let seen = prices.write().describe().await?; // both sides see the same
    /// assert_eq!((seen.mode, seen.holders.len()), (LockMode::Read, 1));
    /// assert_eq!(seen.holders[0].token, Some(lease.fencing_token()));
    /// println!("{seen}");
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&self) -> impl Future<Output = Result<Description, InspectError>> + Send + use<> {
        let seen = self.seen();
        async move {
            let (key, seen, known) = seen.await?;
            Ok(Description::new(key.name(), seen, &known))
        }
    }

    /// What the server shows of the key, and what the engine knows of it.
    pub(super) fn seen(
        &self,
    ) -> impl Future<Output = Result<(Arc<LockKey>, Inspection, Known), InspectError>> + Send + use<> {
        let asked = self
            .on_calls(|lane, key| Box::pin(async move { lane.inspect(&key).await.map(|seen| (key, seen)) }));
        let inner = self.handle.inner().clone();
        async move {
            let (key, seen) = asked.await?;
            let known = known(&inner, &key);
            Ok((key, seen, known))
        }
    }

    /// Asks the server whether the lock is held. The answer may be out of date when it arrives, so do not decide by it
    /// whether to acquire: call [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    /// As [`holder`](Self::holder).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// assert!(!engine.lock("orders:42").is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_locked(&self) -> impl Future<Output = Result<bool, InspectError>> + Send + use<> {
        let holder = self.holder();
        async move { Ok(holder.await?.is_some()) }
    }

    /// Ends the hold of any owner, and wakes the callers that wait for the lock. This is for operators: the holder is
    /// not asked. A lease of this engine is lost with the answer. A holder of another process learns of it at its next
    /// renewal, or within about a second if a caller of its engine waits for the lock. `true`: the lock was held.
    ///
    /// # Errors
    /// As [`holder`](Self::holder).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer, not the request.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LossReason;
    ///
    /// let lease = engine.lock("report").acquire().await?;
    /// assert!(engine.lock("report").force_release().await?);
    /// assert_eq!(lease.lost().await, LossReason::NotOurs);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release(&self) -> impl Future<Output = Result<bool, InspectError>> + Send + use<> {
        let checked = self.engine().process.check().and_then(|()| self.lock_key());
        let forced = checked.map(|key| ForcedRelease::begin(self.engine().clone(), key));
        self.on_calls(|lane, key| {
            Box::pin(async move {
                match forced {
                    Ok(forced) => forced.send(lane).await,
                    Err(_invalid) => lane.force_release(&key).await, // `on_calls` has refused the key
                }
            })
        })
    }

    fn on_calls<T: Send + 'static, R: Request<T>>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<T, InspectError>> + Send + use<T, R> {
        let inner = self.handle.inner().clone();
        let handle = self.handle.clone();
        let (sender, answer) = tokio::sync::oneshot::channel();
        let open = || inner.check_open().map_err(|_| InspectError::ShuttingDown);
        let checked = inner.process.check().map_err(InspectError::Invalid).and_then(|()| open());
        let key = checked.and_then(|()| self.checked_key());
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
            begun?;
            let answer = handle.inner().process.here(answer).await?;
            answer.map_err(|_| InspectError::ShuttingDown)?.map_err(InspectError::Transport)
        }
    }

    /// The same handle, for holds of this kind.
    pub(super) fn of_kind(mut self, kind: HoldKind) -> Self {
        self.kind = kind;
        self
    }

    /// The engine of the lock.
    pub(crate) fn engine(&self) -> &Arc<Inner> {
        self.handle.inner()
    }

    /// The key of the lock.
    ///
    /// # Errors
    /// The name cannot be used.
    pub(crate) fn lock_key(&self) -> Result<Arc<LockKey>, Invalid> {
        self.checked_key()
    }

    /// The labels of the lock's metrics.
    pub(crate) fn labels(&self) -> LabelSet {
        LabelSet::of(self.kind, self.class)
    }

    /// Checks that no two callers with this handle hold the lock at the same time.
    ///
    /// # Errors
    /// The handle reads, or has a re-entry scope.
    pub(crate) fn check_excludes(&self) -> Result<(), Invalid> {
        let remedy = "lets several callers hold the lock at once; use a handle of an exclusive lock";
        let shares = self.kind == HoldKind::Read || self.scope.is_some();
        if shares { Err(Invalid::new("lock", format_args!("{self:?}"), remedy)) } else { Ok(()) }
    }

    /// The same handle, whose callers wait without a limit, and hold without one if the handle sets none: the engine's
    /// defaults are for callers that are requests.
    pub(crate) fn without_limits(mut self) -> Self {
        self.wait = Some(WAIT_MAX);
        self.asked.max_hold.get_or_insert(Duration::MAX);
        self
    }

    /// The wait that the handle sets.
    pub(crate) fn wait_limit(&self) -> Option<Duration> {
        self.wait
    }

    fn checked_key<E: From<Invalid>>(&self) -> Result<Arc<LockKey>, E> {
        self.key.clone().map_err(|(name, fault)| bad_name(&name, &fault.to_string()).into())
    }

    fn call(&self, only_try: bool) -> Result<Call, AcquireError> {
        let inner = self.handle.inner();
        inner.process.check()?;
        inner.check_open()?;
        let joined = inner.clock.now();
        let wait = checked_wait(inner, self.wait)?.map(|time| joined + time);
        let patience = if only_try { Patience::Try } else { Patience::Wait(wait) };
        let key = self.checked_key::<AcquireError>()?;
        let terms = checked_terms(inner, self.kind, self.asked, self.class)?;
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

    // A reference: an argument of an async function takes its memory twice.
    async fn ask(&self, call: &Call) -> Result<Option<AcceptedLease>, AcquireError> {
        let inner = self.handle.inner();
        let wait = Wait::begin(inner, call);
        let outcome = wait.span().around(pin!(self.outcome(call))).await;
        wait.end(&outcome);
        outcome
    }

    // A grant that arrives after its deadline is released, and its caller is queued again at the head.
    async fn outcome(&self, call: &Call) -> Result<Option<AcceptedLease>, AcquireError> {
        let inner = self.handle.inner();
        let mut late: u8 = 0;
        loop {
            let pending_grant = match enqueue::join(inner, call, late)? {
                Enqueued::Held => return Ok(None),
                Enqueued::Shared(pending_grant) => pending_grant,
                Enqueued::Queued(answer, place) => {
                    let answer = inner.process.here(answer).await?;
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
            late = late.saturating_add(1);
        }
    }
}

/// Accepts a pending grant. `None`: the grant came after its deadline, and its caller has to be queued again.
///
/// # Errors
/// `LimitReached`: the engine holds `leases_max` leases.
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

/// The error of a caller that was queued since `joined`. `None`: `try_acquire` found the lock held.
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

/// The wait of a call: its own, or that of the engine's settings, which have been checked.
pub(super) fn checked_wait(inner: &Inner, wait: Option<Duration>) -> Result<Option<Duration>, Invalid> {
    match wait {
        None => Ok(inner.config.wait()),
        Some(time) if time > WAIT_MAX => {
            let remedy = format!("must be at most {WAIT_MAX:?}, ten years; shorten it");
            Err(Invalid::new("wait", format_args!("{time:?}"), remedy))
        }
        Some(time) => Ok(Some(time)),
    }
}

pub(super) fn checked_terms(
    inner: &Inner,
    kind: HoldKind,
    asked: ExplicitTerms,
    class: ClassId,
) -> Result<Terms, AcquireError> {
    inner.check_kind(kind.needs())?;
    if let Some(ttl) = asked.ttl {
        inner.config.check_ttl("ttl", ttl, inner.capabilities.ttl_max)?;
    }
    if asked.max_hold == Some(Duration::ZERO) {
        return Err(Invalid::new("max_hold", "0s", "must be longer; leave it out for no limit").into());
    }
    let labels = LabelSet::of(kind, class);
    let ttl = asked.ttl.unwrap_or(inner.config.ttl()); // that of the settings has been checked
    let max_hold = asked.max_hold.or(inner.config.max_hold());
    Ok(Terms { kind, ttl, renewed: !asked.no_renewal, max_hold, labels })
}

/// What the engine knows of its own holds of the key, and of the callers that wait for it.
fn known(inner: &Inner, key: &Arc<LockKey>) -> Known {
    let client = Owner::new(inner.mint.client(), 0).client_spelling();
    inner.table.with(key, |slot| {
        let leases = slot.entry.leases().map(|lease| (lease.owner.number(), (lease.token, lease.holds())));
        let leases = leases.collect();
        let permits = slot.entry.leases().map(|lease| permits_of(lease.kind())).sum();
        Known { client, leases, permits, waiting: slot.entry.callers().count() }
    })
}

fn permits_of(kind: HoldKind) -> u64 {
    match kind {
        HoldKind::Permits(count) => u64::from(count.get()),
        _ => 0,
    }
}

/// One request on the calls lane, made on the calls thread.
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

impl From<Invalid> for InspectError {
    fn from(invalid: Invalid) -> Self {
        InspectError::Invalid(invalid)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({:?}, {}, {:?})", self.key, self.kind, self.asked)
    }
}

impl fmt::Debug for ReentryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReentryScope({:?})", self.id)
    }
}

const NAME_SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F>(_: fn(&Lock) -> F) -> usize {
        size_of::<F>()
    }

    // Its future is copied when it is returned and when it is awaited. Users keep it in futures of their own.
    #[test]
    fn an_acquire_is_small() {
        let size = size_of_future(Lock::acquire);
        assert!(size <= 600, "{size} bytes");
    }
}
