use std::time::Duration;

use super::{block_on, lease::Lease};
use crate::{AcquireError, Holder, InspectError, LeaseState, ReentryScope, RunError};

/// A handle of a lock for threads, and how it is acquired. The handle is the builder, and can be used many times.
/// [`Engine::lock`](super::Engine::lock) makes it. As [`leasehold::Lock`](crate::Lock).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, blocking};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// use std::time::Duration;
///
/// let lock = engine.lock("acct:7").wait(Duration::from_secs(5)).ttl(Duration::from_secs(10));
/// let lease = lock.acquire()?;
/// lease.ensure_held()?; // before each guarded step
/// lease.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock handle does nothing until it is acquired"]
pub struct Lock {
    lock: crate::Lock,
}

impl Lock {
    pub(super) fn of(lock: crate::Lock) -> Self {
        Self { lock }
    }

    /// Sets how long [`acquire`](Self::acquire) blocks while the lock is held. Default: no limit. As
    /// [`leasehold::Lock::wait`](crate::Lock::wait).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use std::time::Duration;
    /// use leasehold::AcquireError;
    ///
    /// let held = engine.lock("report").acquire()?;
    /// let second = engine.lock("report").wait(Duration::from_millis(20)).acquire();
    /// assert!(matches!(second, Err(AcquireError::TimedOut { .. })));
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self, time: Duration) -> Self {
        Self::of(self.lock.wait(time))
    }

    /// Sets how long the server keeps the lock unless it is renewed. Default: the engine's ttl, 30 s. At least 1 s. As
    /// [`leasehold::Lock::ttl`](crate::Lock::ttl).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// # use std::time::Duration;
    /// let lease = engine.lock("orders:42").ttl(Duration::from_secs(10)).acquire()?;
    /// assert!(lease.remaining() < Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(self, ttl: Duration) -> Self {
        Self::of(self.lock.ttl(ttl))
    }

    /// Switches renewal off: the lease ends after its ttl in any case. As
    /// [`leasehold::Lock::no_renewal`](crate::Lock::no_renewal).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// # use std::time::Duration;
    /// let lease = engine.lock("nightly").ttl(Duration::from_secs(10)).no_renewal().acquire()?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_renewal(self) -> Self {
        Self::of(self.lock.no_renewal())
    }

    /// Sets for how long the lease is renewed. So a thread that hangs does not hold the lock for ever. Default: no
    /// limit. As [`leasehold::Lock::max_hold`](crate::Lock::max_hold).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// # use std::time::Duration;
    /// let lease = engine.lock("report").max_hold(Duration::from_secs(600)).acquire()?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(self, time: Duration) -> Self {
        Self::of(self.lock.max_hold(time))
    }

    /// Sets the class that the lock counts as in metrics. As [`leasehold::Lock::class`](crate::Lock::class).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").class("orders").acquire()?;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn class(self, name: &str) -> Self {
        Self::of(self.lock.class(name))
    }

    /// Shares one hold with the other calls of this scope. As [`leasehold::Lock::reentry`](crate::Lock::reentry).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let scope = engine.reentry();
    /// let lock = engine.lock("acct:7").reentry(&scope);
    /// let (outer, inner) = (lock.acquire()?, lock.acquire()?);
    /// # drop((outer, inner));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentry(self, scope: &ReentryScope) -> Self {
        Self::of(self.lock.reentry(scope))
    }

    /// Blocks until the lock is granted, and returns a lease that is held until it is released, dropped or lost.
    /// Without a [`wait`](Self::wait) the call blocks for as long as the lock is held.
    ///
    /// # Errors
    /// As [`leasehold::Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Panics
    /// Inside async code; see [the module](super).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use std::time::Duration;
    /// use leasehold::AcquireError;
    ///
    /// match engine.lock("orders:42").wait(Duration::from_secs(2)).acquire() {
    ///     Ok(lease) => lease.release()?,
    ///     Err(AcquireError::TimedOut { .. }) => println!("another process works on this order"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        block_on(self.lock.acquire()).map(Lease::of)
    }

    /// Takes the lock if it is free. `None`: the lock is held. Blocks for one command, usually below 1 ms.
    ///
    /// # Errors
    /// As [`leasehold::Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Panics
    /// Inside async code; see [the module](super).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// if let Some(lease) = engine.lock("nightly").try_acquire()? {
    ///     println!("this process runs the nightly job");
    ///     lease.release()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        block_on(self.lock.try_acquire()).map(|lease| lease.map(Lease::of))
    }

    /// Acquires the lock, runs `work` with the lease, and releases the lock, also if the work panics. A loss does *not*
    /// stop the work, since nothing stops a thread: call [`Lease::ensure_held`] before each guarded step.
    ///
    /// # Errors
    /// The first of these that applies: [`RunError::Acquire`]; [`RunError::Work`]; [`RunError::Lost`]: the work
    /// succeeded, and the lease was lost before it ended; [`RunError::Release`].
    ///
    /// # Panics
    /// Inside async code; see [the module](super).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let done = engine.lock("acct:7").run(|lease| {
    ///     lease.ensure_held()?;
    ///     Ok::<_, leasehold::NotHeld>(42)
    /// });
    /// assert_eq!(done?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn run<T, E>(&self, work: impl FnOnce(&Lease) -> Result<T, E>) -> Result<T, RunError<E>> {
        let lease = self.acquire().map_err(RunError::Acquire)?;
        match work(&lease) {
            Ok(done) => finish(lease).map(|()| done),
            Err(error) => {
                let _ = lease.release(); // the work's error is the one to tell
                Err(RunError::Work(error))
            }
        }
    }

    /// Asks the server which owner holds the lock. `None`: the lock is free. As
    /// [`leasehold::Lock::holder`](crate::Lock::holder).
    ///
    /// # Errors
    /// As [`leasehold::Lock::holder`](crate::Lock::holder).
    ///
    /// # Panics
    /// Inside async code; see [the module](super).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// if let Some(holder) = engine.lock("orders:42").holder()? {
    ///     println!("held by {} for at most {:?}", holder.owner, holder.remaining);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn holder(&self) -> Result<Option<Holder>, InspectError> {
        block_on(self.lock.holder())
    }

    /// The async form of the same handle.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lock = engine.lock("orders:42");
    /// println!("{}", blocking::block_on(lock.as_async().describe())?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &crate::Lock {
        &self.lock
    }
}

#[track_caller]
fn finish<E>(lease: Lease) -> Result<(), RunError<E>> {
    match lease.state() {
        LeaseState::Lost(reason) => Err(RunError::Lost(reason)),
        LeaseState::Held | LeaseState::Jeopardy => lease.release().map_err(RunError::Release),
    }
}
