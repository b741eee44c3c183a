use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{arithmetic::Tally, holding::Holding};
use crate::{
    error::{NotHeld, ReleaseError},
    lease::state::LossReason,
};

/// A lock that a majority of the servers of a quorum holds. [`QuorumLock::acquire`](crate::QuorumLock::acquire) returns
/// it.
///
/// The lease is held while the leases of a majority are held. Each member lease is renewed by itself. A member that was
/// not granted is tried again after a thirtieth of the ttl (50 ms to 1 s), and from then on, as a member that is lost,
/// every third of the ttl (at times up to a tenth earlier), as long as a majority is held. Below that the lease is lost
/// for good. Dropping the lease releases every member in the background.
///
/// The lease has no fencing token: the servers are independent, so no number rises over all of them.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use leasehold::{Engine, Quorum};
/// # use leasehold_memory::MemoryTransport;
/// # let mut engines = Vec::new();
/// # for _server in 0..3 {
/// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
/// # }
/// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
/// println!("{} is held by {} of {}", lease.name(), lease.tally().held, lease.tally().of);
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is released at once"]
pub struct QuorumLease {
    name: Arc<str>,
    holding: Arc<Holding>,
}

impl QuorumLease {
    pub(super) fn new(name: Arc<str>, holding: Arc<Holding>) -> Self {
        Self { name, holding }
    }

    pub(super) fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }

    /// The lock's name, without any `name_prefix`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a majority is held now. Never `true` again after it was `false`, or would have been. See
    /// [`Lease::is_held`](crate::Lease::is_held).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
    /// while lease.is_held() {
    ///     // one step of the work
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.holding.is_held()
    }

    /// `Ok` while a majority is held. For use with `?` before each guarded step.
    ///
    /// # Errors
    /// [`NotHeld`]: the lease is lost, with the reason of a member.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
    /// for step in 0..3 {
    ///     lease.ensure_held()?;
    ///     println!("step {step}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        self.holding.ensure_held()
    }

    /// How long a majority is held from now on if no renewal is confirmed: with q needed members, the q-th largest of
    /// their remaining times. Each counts from the moment its own command was sent. Zero if the lease is lost.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lock = Quorum::over(engines)?.lock("orders:42").ttl(Duration::from_secs(10));
    /// let lease = lock.acquire().await?;
    /// assert!(lease.remaining() <= Duration::from_millis(9_500));
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.holding.remaining()
    }

    /// How many members are held, are needed, and exist.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
    /// let tally = lease.tally();
    /// if tally.held == tally.needed {
    ///     println!("one more server that fails ends this lease");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tally(&self) -> Tally {
        self.holding.tally()
    }

    /// Waits until fewer than a majority is held, and returns the reason of a member. Never completes if the lease is
    /// released before. The members that are left are released 50 ms after that, so that work which is stopped by it
    /// ends first.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
    /// tokio::select! {
    ///     reason = lease.lost() => return Err(reason.into()),
    ///     () = async { /* the work */ } => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.holding.clone().lost()
    }

    /// Releases every member. From this call on the lease is not held, whatever the servers answer. All releases begin
    /// with the call. `Ok`: a majority was held to the end; the releases of the others may still be on their way.
    ///
    /// # Errors
    /// [`ReleaseError::AlreadyLost`]: a majority was lost before. [`ReleaseError::Unknown`] and
    /// [`ReleaseError::ReleasedOrLost`]: too few releases were confirmed, and it is not certain that a majority was
    /// lost.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answers. The releases go on.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let lease = Quorum::over(engines)?.lock("orders:42").acquire().await?;
    /// lease.release().await?; // Ok: a majority held it to the end
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        self.holding.release()
    }
}

impl Drop for QuorumLease {
    fn drop(&mut self) {
        self.holding.drop_handle();
    }
}

impl fmt::Debug for QuorumLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuorumLease({:?}, {:?})", self.name, self.tally())
    }
}
