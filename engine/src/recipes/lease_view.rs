//! A view of a lease, for the work that is done under it.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use crate::{
    FencingToken, Lease, LeaseState, LossReason, NotHeld,
    clock::{Clock, Instant},
    handles::lost,
    lease::shared::LeaseCore,
    process::Process,
};

/// A view of the lease under which the work of a recipe runs: its fencing token, and whether it is still held. Clones
/// can be handed to other tasks and threads. A view releases nothing when it is dropped, and keeps no engine alive.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use leasehold::{Leader, NotHeld};
///
/// let leader = Leader::of(engine.lock("leader of reports"));
/// let done = leader.run(|term| async move {
///     let of_thread = term.clone();
///     let thread = std::thread::spawn(move || of_thread.ensure_held()); // a thread is not stopped by a loss: it asks
///     println!("term {} is certain for {:?}", term.fencing_token(), term.remaining());
///     thread.join().expect("no panic")
/// });
/// done.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseView {
    core: Arc<LeaseCore>,
    clock: Clock,
    process: Process,
}

impl LeaseView {
    pub(super) fn of(lease: &Lease) -> Self {
        let (clock, process) = (lease.engine().clock, lease.engine().process.clone());
        Self { core: lease.core().clone(), clock, process }
    }

    /// The lock's name, without the engine's `name_prefix`.
    pub fn name(&self) -> &str {
        self.core.key.name()
    }

    /// A number that is higher than the number of every earlier holder of this lock. As [`Lease::fencing_token`].
    pub fn fencing_token(&self) -> FencingToken {
        self.core.token
    }

    /// Whether the lease is held now. As [`Lease::is_held`].
    pub fn is_held(&self) -> bool {
        self.core.is_held(self.now())
    }

    /// `Ok` while the lease is held. For use with `?` before each guarded step. As [`Lease::ensure_held`].
    ///
    /// # Errors
    /// [`NotHeld`]: the lease is lost, with the reason. A lease that was released counts as lost: the work is over.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Leader, NotHeld};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let leader = Leader::of(engine.lock("leader of reports"));
    /// let done = leader.run(|term| async move {
    ///     for step in 0..3 {
    ///         term.ensure_held()?;
    ///         println!("step {step}");
    ///     }
    ///     Ok::<_, NotHeld>(())
    /// });
    /// done.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_held(&self) -> Result<(), NotHeld> {
        match self.state() {
            LeaseState::Held | LeaseState::Jeopardy => Ok(()),
            LeaseState::Lost(reason) => Err(NotHeld { reason }),
        }
    }

    /// The lease's state. As [`Lease::state`].
    pub fn state(&self) -> LeaseState {
        self.core.state(self.now())
    }

    /// How long the lease is held from now on if no renewal is confirmed. Zero if the lease is lost or released. As
    /// [`Lease::remaining`].
    pub fn remaining(&self) -> Duration {
        if self.core.is_live() { self.core.deadline() - self.now() } else { Duration::ZERO }
    }

    /// Waits until the lease is lost, and returns the reason. Never completes if the lease is released before. As
    /// [`Lease::lost`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        lost(self.core.clone(), self.process.clone())
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl fmt::Debug for LeaseView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseView({:?}, token {})", self.core.key.name(), self.core.token)
    }
}
