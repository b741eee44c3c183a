use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::holding::{Holding, MemberLease};
use crate::{
    error::{NotHeld, ReleaseError},
    lease::state::LossReason,
};

/// All members of a multi lock, held. [`MultiLock::acquire`](crate::MultiLock::acquire) returns it.
///
/// The lease is held while *every* member is held. When one member is lost, the whole is lost, and the engine releases
/// the others in the background. Dropping the lease releases every member in the background.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use leasehold::MultiLock;
///
/// let lease = MultiLock::of([engine.lock("acct:7"), engine.lock("acct:9")]).acquire().await?;
/// for member in lease.leases() {
///     println!("{} with token {}", member.name(), member.fencing_token());
/// }
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is released at once"]
pub struct MultiLease {
    holding: Arc<Holding>,
    members: Vec<MemberLease>,
}

impl MultiLease {
    pub(super) fn new(holding: Arc<Holding>) -> Self {
        Self { members: holding.member_leases(), holding }
    }

    pub(super) fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }

    /// The members, in the order of the list that [`MultiLock::of`](crate::MultiLock::of) was given: names, fencing
    /// tokens and states.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::MultiLock;
    ///
    /// let lease = MultiLock::of([engine.lock("b"), engine.lock("a")]).acquire().await?;
    /// assert_eq!(lease.leases().iter().map(|member| member.name()).collect::<Vec<_>>(), ["b", "a"]);
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn leases(&self) -> &[MemberLease] {
        &self.members
    }

    /// Whether every member is held now. Never `true` again after it was `false`. See [`Lease::is_held`].
    ///
    /// [`Lease::is_held`]: crate::Lease::is_held
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// # use leasehold::MultiLock;
    /// let lease = MultiLock::of([engine.lock("a"), engine.lock("b")]).acquire().await?;
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

    /// `Ok` while every member is held. For use with `?` before each guarded step.
    ///
    /// # Errors
    /// [`NotHeld`]: a member is lost, with the reason.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// # use leasehold::MultiLock;
    /// let lease = MultiLock::of([engine.lock("a"), engine.lock("b")]).acquire().await?;
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

    /// How long every member is held from now on if no renewal is confirmed: the time to the earliest deadline. Zero
    /// if the lease is lost.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// # use leasehold::MultiLock;
    ///
    /// let short = engine.lock("a").ttl(Duration::from_secs(5));
    /// let lease = MultiLock::of([short, engine.lock("b")]).acquire().await?;
    /// assert!(lease.remaining() < Duration::from_secs(5));
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.holding.remaining()
    }

    /// Waits until the first member is lost, and returns the reason. Never completes if the lease is released before.
    /// The other members are released 50 ms after that, so that work which is stopped by it ends first.
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
    /// # use leasehold::MultiLock;
    /// let lease = MultiLock::of([engine.lock("a"), engine.lock("b")]).acquire().await?;
    /// tokio::select! {
    ///     reason = lease.lost() => return Err(reason.into()),
    ///     () = async { /* the work */ } => {}
    /// }
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.holding.clone().lost()
    }

    /// Releases every member. From this call on the lease is not held, whatever the servers answer. All releases begin
    /// with the call, so that a member whose release fails keeps no other one locked. `Ok`: every member was held to
    /// the end.
    ///
    /// # Errors
    /// [`ReleaseError::AlreadyLost`]: a member was lost before. [`ReleaseError::Unknown`] and
    /// [`ReleaseError::ReleasedOrLost`]: none was lost for certain, and the release of a member was not confirmed, as
    /// in [`Lease::release`](crate::Lease::release). Of several unconfirmed releases, the one that is gone last.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answers. The releases go on.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// # use leasehold::MultiLock;
    /// let lease = MultiLock::of([engine.lock("a"), engine.lock("b")]).acquire().await?;
    /// lease.release().await?;
    /// assert!(!engine.lock("a").is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        self.holding.release()
    }
}

impl Drop for MultiLease {
    fn drop(&mut self) {
        self.holding.drop_handle();
    }
}

impl fmt::Debug for MultiLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiLease({:?})", self.members)
    }
}
