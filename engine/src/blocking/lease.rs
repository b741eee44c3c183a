use std::time::Duration;

use super::block_on;
use crate::{
    DowngradeError, FencingToken, LeaseState, LossReason, NotHeld, ReleaseError, RenewError, compose::timer,
};

/// A lock that a thread holds, until it is released, dropped or lost. [`Lock::acquire`](super::Lock::acquire) returns
/// it. The engine renews it on threads of its own, so a holder that blocks loses nothing. As
/// [`leasehold::Lease`](crate::Lease).
///
/// Dropping the lease releases the lock in the background, and does not block. It may be dropped anywhere, also inside
/// async code.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, blocking};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// let lease = engine.lock("orders:42").acquire()?;
/// println!("{} with token {}", lease.name(), lease.fencing_token());
/// lease.ensure_held()?; // before each guarded step
/// lease.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    lease: crate::Lease,
}

impl Lease {
    pub(super) fn of(lease: crate::Lease) -> Self {
        Self { lease }
    }

    /// The lock's name, without the engine's `name_prefix`.
    pub fn name(&self) -> &str {
        self.lease.name()
    }

    /// Whether the lease is held now: the clock is compared with the deadline. As
    /// [`leasehold::Lease::is_held`](crate::Lease::is_held).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").acquire()?;
    /// while lease.is_held() {
    ///     // one step of the work
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// `Ok` while the lease is held. For use with `?` before each guarded step: nothing stops a thread whose lease is
    /// lost, so it has to ask.
    ///
    /// # Errors
    /// [`NotHeld`]: the lease is lost, with the reason.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").acquire()?;
    /// for step in 0..3 {
    ///     lease.ensure_held()?;
    ///     println!("step {step}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        self.lease.ensure_held()
    }

    /// The lease's state: held, in jeopardy, or lost with the reason. As
    /// [`leasehold::Lease::state`](crate::Lease::state).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use leasehold::LeaseState;
    ///
    /// let lease = engine.lock("orders:42").acquire()?;
    /// assert_eq!(lease.state(), LeaseState::Held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.lease.state()
    }

    /// How long the lease is held from now on if no renewal is confirmed. Zero if the lease is lost.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use std::time::Duration;
    ///
    /// let lease = engine.lock("orders:42").acquire()?;
    /// if lease.remaining() < Duration::from_secs(2) {
    ///     println!("too little time for the next step");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// A number that is higher than the number of every earlier holder of this lock. As
    /// [`leasehold::Lease::fencing_token`](crate::Lease::fencing_token).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").acquire()?;
    /// let token = lease.fencing_token().as_i64();
    /// println!("UPDATE orders SET state = 'paid', token = {token} WHERE id = 42 AND token <= {token}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.fencing_token()
    }

    /// Blocks until the lease is lost, for at most `timeout`. `None`: it was not lost in that time. A timeout of zero
    /// only looks. For a thread that watches over work of other threads.
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
    ///
    /// let lease = engine.lock("orders:42").acquire()?;
    /// if let Some(reason) = lease.lost_within(Duration::from_millis(10)) {
    ///     println!("stop the work: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn lost_within(&self, timeout: Duration) -> Option<LossReason> {
        let over = timer::sleep(std::slice::from_ref(self.lease.engine()), timeout);
        block_on(async {
            tokio::select! {
                biased;
                reason = self.lease.lost() => Some(reason),
                () = over => None,
            }
        })
        .or_else(|| self.ensure_held().err().map(|not_held| not_held.reason))
    }

    /// Asks the server to keep the lock for at least `ttl` from now on, and blocks for the answer. The regular renewals
    /// go on. As [`leasehold::Lease::renew`](crate::Lease::renew).
    ///
    /// # Errors
    /// As [`leasehold::Lease::renew`](crate::Lease::renew).
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
    ///
    /// let lease = engine.lock("orders:42").acquire()?;
    /// lease.renew(Duration::from_secs(120))?; // a step follows that must not be interrupted
    /// assert!(lease.remaining() > Duration::from_secs(100));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn renew(&self, ttl: Duration) -> Result<(), RenewError> {
        block_on(self.lease.renew(ttl))
    }

    /// Turns a write lease of a read/write lock into a read lease, without letting another writer in between. As
    /// [`leasehold::Lease::downgrade`](crate::Lease::downgrade).
    ///
    /// # Errors
    /// [`DowngradeError::NotAWriteLock`] with the unchanged lease, in its async form. [`DowngradeError::Lost`].
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
    /// let prices = engine.rw_lock("prices");
    /// let reader = prices.write().acquire()?.downgrade()?;
    /// let other = prices.read().acquire()?;
    /// # drop((reader, other));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn downgrade(self) -> Result<Lease, DowngradeError> {
        block_on(self.lease.downgrade()).map(Self::of)
    }

    /// Releases the lock, and blocks for the answer, for at most one command timeout (default 1 s). From this call on
    /// the lease is not held, whatever the server answers. `Ok`: the lock was held to the end.
    ///
    /// # Errors
    /// As [`leasehold::Lease::release`](crate::Lease::release).
    ///
    /// # Panics
    /// Inside async code; see [the module](super). The lease is then dropped, which releases the lock.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use leasehold::ReleaseError;
    ///
    /// match engine.lock("orders:42").acquire()?.release() {
    ///     Ok(()) => {}
    ///     Err(ReleaseError::Unknown { within, .. }) => eprintln!("the lock is free within {within:?}"),
    ///     Err(error) => eprintln!("another owner may have worked too: {error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn release(self) -> Result<(), ReleaseError> {
        block_on(self.lease.release())
    }
}
