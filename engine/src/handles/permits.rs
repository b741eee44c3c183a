//! Permits that expire: a semaphore whose permits are leases.

use std::{fmt, future::Future, num::NonZeroU16, time::Duration};

use uuid::Uuid;

use super::{
    alive::Handle,
    counter::{CounterHandle, checked_count},
    description::PermitsDescription,
    lease::Lease,
    lock::Lock,
};
use crate::{
    count_error::CountError,
    counters::entry::work::Work,
    error::{AcquireError, InspectError, Invalid, NotHeld, ReleaseError, RenewError},
    lease::state::{LeaseState, LossReason},
    transport::{Counter, ErrorKind, HoldKind, TransportError},
};

/// A semaphore whose permits are leases: a number of permits that all processes share, each with an owner and a ttl. The
/// handle is the builder of a call, and can be used many times, also by several tasks at once.
/// [`Engine::permits`](crate::Engine::permits) makes it.
///
/// The permits of a process that dies come back after their ttl. Use it where a [`Semaphore`](crate::Semaphore) would
/// lose them. On the server it is a Redisson `RPermitExpirableSemaphore`: Java processes share it.
///
/// The total is set once with [`try_set_total`](Self::try_set_total). Without it there are no permits.
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
/// let downloads = engine.permits("downloads").wait(Duration::from_secs(5));
/// downloads.try_set_total(2).await?; // the first process sets the number
/// let permit = downloads.acquire(1).await?;
/// permit.ensure_held()?; // before each step of the download
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a handle of permits does nothing until it is used"]
pub struct Permits {
    lock: Lock,
    counter: CounterHandle,
}

/// Permits that are held, until they are released, dropped or lost. [`Permits::acquire`] returns them. All permits of one
/// call are one lease: they are granted, renewed, lost and released together.
///
/// Dropping it gives the permits back in the background. The drop never blocks and needs no runtime. Prefer
/// [`release`](Self::release): only its answer says that the permits were held to the end.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let downloads = engine.permits("downloads");
/// downloads.try_set_total(5).await?;
/// let permit = downloads.acquire(2).await?;
/// println!("{} permits of {:?}", permit.count(), permit.name());
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "permits that are dropped are given back at once"]
pub struct Permit {
    lease: Lease,
    count: NonZeroU16,
}

impl Permits {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        let counter = CounterHandle::new(handle.clone(), name, Counter::PermitTotal);
        Self { lock: Lock::new(handle, name, HoldKind::Permits(NonZeroU16::MIN)), counter }
    }

    /// Sets how long [`acquire`](Self::acquire) waits for permits, counted from the call. At most ten years. Default: no
    /// limit. The call returns within this time and one command timeout (default 1 s). So a wait of zero asks the server
    /// once.
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
    /// let downloads = engine.permits("downloads").wait(Duration::from_millis(50));
    /// let outcome = downloads.acquire(1).await; // no total was set: there are no permits
    /// assert!(matches!(outcome, Err(AcquireError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.lock = self.lock.wait(time);
        self
    }

    /// Sets how long the server keeps permits unless they are renewed. Default: the engine's ttl, 30 s. At least 1 s.
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
    /// let downloads = engine.permits("downloads").ttl(Duration::from_secs(10));
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// assert!(permit.remaining() <= Duration::from_millis(9_500)); // 5 % earlier than the server
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// Switches renewal off: the permits end after their ttl in any case. Redisson calls this `leaseTime`.
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
    /// // Five calls a minute, over all processes: each permit comes back after a minute, without a release.
    /// let calls = engine.permits("calls").ttl(Duration::from_secs(60)).no_renewal();
    /// calls.try_set_total(5).await?;
    /// let permit = calls.acquire(1).await?;
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_renewal(mut self) -> Self {
        self.lock = self.lock.no_renewal();
        self
    }

    /// Sets for how long permits are renewed, counted from the moment the caller takes them. After that they are lost at
    /// their deadline, with [`LossReason::MaxHold`]. Default: no limit.
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
    /// let downloads = engine.permits("downloads").max_hold(Duration::from_secs(600));
    /// # drop(downloads);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.lock = self.lock.max_hold(time);
        self
    }

    /// Sets the class that the permits count as in metrics; see [`Lock::class`]. The label `kind` is `permits`.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads:eu").class("downloads");
    /// # drop(downloads);
    /// # Ok(())
    /// # }
    /// ```
    pub fn class(mut self, name: &str) -> Self {
        self.lock = self.lock.class(name);
        self
    }

    /// Waits until this many permits are available, and takes all of them at once: all or none. Callers of one engine are
    /// served in the order in which they came; between processes there is no order. So a call for many permits may wait
    /// behind the calls of other processes for few.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`]: the [`wait`](Self::wait) is over, and there were not enough permits.
    /// [`AcquireError::Unavailable`]: the wait is over without a definite answer, or no definite answer came for
    /// `unavailable_after` (default 10 s). [`AcquireError::Invalid`]: `permits` is zero or above 65,535, or another value
    /// of the call cannot be used. [`AcquireError::Refused`]: the server refuses the request until its settings or the
    /// key change. [`AcquireError::Unsupported`]: the transport keeps no permits. [`AcquireError::LimitReached`]:
    /// `leases_max` or `waiters_max` is reached. [`AcquireError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future removes the caller from the queue. If permits were granted meanwhile, the engine gives them
    /// back.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(3).await?;
    /// let permit = downloads.acquire(2).await?;
    /// assert_eq!((permit.count(), downloads.available().await?), (2, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, permits: u32) -> impl Future<Output = Result<Permit, AcquireError>> + Send + use<> {
        let begun = self.of_count(permits).map(|(lock, count)| (lock.acquire(), count));
        async move {
            let (acquire, count) = begun?;
            Ok(Permit { lease: acquire.await?, count })
        }
    }

    /// Takes this many permits if they are available now. `None`: they are not, or a caller of this engine waits already.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `TimedOut`.
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
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.try_acquire(1).await?;
    /// assert!(permit.is_some() && downloads.try_acquire(1).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<Option<Permit>, AcquireError>> + Send + use<> {
        let begun = self.of_count(permits).map(|(lock, count)| (lock.try_acquire(), count));
        async move {
            let (acquire, count) = begun?;
            Ok(acquire.await?.map(|lease| Permit { lease, count }))
        }
    }

    /// Sets the total if the semaphore does not exist. `false`: it exists, and was not changed.
    ///
    /// # Errors
    /// [`CountError::Unknown`]: no definite answer for `unavailable_after` (default 10 s); it may have counted.
    /// [`CountError::Unavailable`]: the same, and it certainly did not count. [`CountError::Invalid`]: `permits` is above
    /// 2^31 - 1, or the name cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no permits. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the total may have been set, or may be set within a command timeout.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// assert!(downloads.try_set_total(3).await?);
    /// assert!(!downloads.try_set_total(5).await?);
    /// assert_eq!(downloads.available().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_set_total(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<bool, CountError>> + Send + use<> {
        let begun =
            checked_count("permits", permits, 0).map(|count| self.counter.call(Work::SetIfAbsent(count)));
        async move { Ok(begun?.await?.result != 0) }
    }

    /// Adds permits to the total, or removes them if `permits` is negative. Permits that are held stay held. So the number
    /// of available permits may become negative; then callers wait until it has grown.
    ///
    /// # Errors
    /// As [`try_set_total`](Self::try_set_total).
    ///
    /// # Cancel safety
    /// As [`try_set_total`](Self::try_set_total).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.add(5).await?;
    /// downloads.add(-2).await?;
    /// assert_eq!(downloads.available().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&self, permits: i32) -> impl Future<Output = Result<(), CountError>> + Send + use<> {
        let begun = self.counter.call(Work::Add(permits));
        async move { begun.await.map(drop) }
    }

    /// Asks the server how many permits are available; those that have expired count as available. The answer may be out
    /// of date when it arrives, so do not decide by it whether to acquire: call [`try_acquire`](Self::try_acquire).
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
    /// let downloads = engine.permits("downloads");
    /// assert_eq!(downloads.available().await?, 0); // no total was set
    /// # Ok(())
    /// # }
    /// ```
    pub fn available(&self) -> impl Future<Output = Result<i64, InspectError>> + Send + use<> {
        self.counter.read()
    }

    /// Asks the server for the permits that are available and held, and adds what this engine knows.
    ///
    /// # Errors
    /// [`InspectError::Transport`]: no definite answer. [`InspectError::Invalid`]: the name is not allowed.
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
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(3).await?;
    /// let _permit = downloads.acquire(2).await?;
    /// assert_eq!(
    ///     downloads.describe().await?.to_string(),
    ///     "permits \"downloads\": 1 available, 2 held, 2 of them here, 0 waiting here"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&self) -> impl Future<Output = Result<PermitsDescription, InspectError>> + Send + use<> {
        let seen = self.lock.seen();
        async move {
            let (key, seen, known) = seen.await?;
            PermitsDescription::new(key.name(), &seen, &known).ok_or_else(untold)
        }
    }

    fn of_count(&self, permits: u32) -> Result<(Lock, NonZeroU16), Invalid> {
        let count = u16::try_from(permits).ok().and_then(NonZeroU16::new).ok_or_else(|| {
            let remedy = format!("must be 1 to {}; acquire more in several calls", u16::MAX);
            Invalid::new("permits", permits, remedy)
        })?;
        Ok((self.lock.clone().of_kind(HoldKind::Permits(count)), count))
    }
}

// An answer without numbers does not mean that there are none.
fn untold() -> InspectError {
    let detail = "the transport has told no numbers of permits; use one that keeps permits";
    InspectError::Transport(TransportError::without_effect(ErrorKind::Protocol, None, detail))
}

impl Permit {
    /// The semaphore's name, without the engine's `name_prefix`.
    pub fn name(&self) -> &str {
        self.lease.name()
    }

    /// The number of permits: what the caller asked for.
    pub fn count(&self) -> u32 {
        self.count.get().into()
    }

    /// The ids of the permits, one for each, as Redisson shows them: 32 hexadecimal digits. A Java process can release a
    /// permit by its id; the engine is told at the next renewal that the permits are lost.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(2).await?;
    /// let ids = downloads.acquire(2).await?.ids();
    /// assert!(ids.len() == 2 && ids.iter().all(|id| id.len() == 32));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ids(&self) -> Vec<String> {
        let shown = |id: Uuid| id.as_simple().to_string();
        (0..self.count.get()).map(|index| shown(self.lease.core().owner.permit_id(index))).collect()
    }

    /// Whether the permits are held now; see [`Lease::is_held`]. Never `true` again after it was `false`.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// while permit.is_held() {
    ///     // one step of the work
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// `Ok` while the permits are held. For use with `?` before each guarded step.
    ///
    /// # Errors
    /// [`NotHeld`]: the permits are lost, with the reason.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// permit.ensure_held()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        self.lease.ensure_held()
    }

    /// The state of the permits: held, in jeopardy (a renewal was not confirmed), or lost with the reason.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LeaseState;
    ///
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// assert_eq!(downloads.acquire(1).await?.state(), LeaseState::Held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.lease.state()
    }

    /// How long the permits are held from now on if no renewal is confirmed. Zero if they are lost.
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
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// if permit.remaining() < Duration::from_secs(2) {
    ///     println!("too little time for the next step");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Waits until the permits are lost, and returns the reason; see [`Lease::lost`]. If no renewal is confirmed, the future
    /// completes at most 100 ms after the deadline. It never completes if they are released before.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// tokio::select! {
    ///     reason = permit.lost() => return Err(reason.into()),
    ///     () = async { /* the work */ } => {}
    /// }
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.lease.lost()
    }

    /// Asks the server to keep the permits for at least `ttl` from now on. The call never shortens the lease. The regular
    /// renewals go on.
    ///
    /// # Errors
    /// As [`Lease::renew`].
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
    /// use std::time::Duration;
    ///
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(1).await?;
    /// let permit = downloads.acquire(1).await?;
    /// permit.renew(Duration::from_secs(120)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(&self, ttl: Duration) -> impl Future<Output = Result<(), RenewError>> + Send + use<> {
        self.lease.renew(ttl)
    }

    /// Gives the permits back. From this call on they are not held, whatever the server answers. `Ok`: all of them were
    /// held to the end.
    ///
    /// # Errors
    /// As [`Lease::release`]: [`ReleaseError::AlreadyLost`], [`ReleaseError::ReleasedOrLost`] or
    /// [`ReleaseError::Unknown`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer. The release goes on.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let downloads = engine.permits("downloads");
    /// downloads.try_set_total(3).await?;
    /// let permit = downloads.acquire(2).await?;
    /// permit.release().await?;
    /// assert_eq!(downloads.available().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        self.lease.release()
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permits({:?})", self.counter)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} of {:?}, {:?})", self.count, self.name(), self.state())
    }
}
