//! The read/write lock: many readers or one writer.

use super::{alive::Handle, lock::Lock};
use crate::transport::HoldKind;

/// A read/write lock. Its two sides are [`Lock`] handles: set the wait, the ttl and so on of each, and acquire it.
/// [`Engine::rw_lock`](crate::Engine::rw_lock) makes it.
///
/// Many owners hold the read side at the same time, in all processes. The write side has one owner, and no
/// caller reads meanwhile. The rules of waiting:
/// - Within an engine callers are served in the order of arrival. A reader that arrives while other callers of the
///   engine read joins their lease, without a command, unless a writer waits.
/// - Between processes no order is kept. Readers of other processes may come before a writer that waits, as with
///   Redisson: under constant reading a writer may wait for ever. Give it a [`wait`](Lock::wait).
///
/// Within a [`reentry`](Lock::reentry) scope a writer may read, with the same lease. A reader that wants to write gets
/// [`AcquireError::WouldDeadlock`](crate::AcquireError::WouldDeadlock).
///
/// The fencing token of a write lease is higher than those of all earlier leases. Readers may share one.
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
/// let prices = engine.rw_lock("prices");
/// let writer = prices.write().wait(Duration::from_secs(5)).acquire().await?;
/// writer.release().await?;
/// let reader = prices.read().acquire().await?;
/// reader.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock handle does nothing until one of its sides is acquired"]
pub struct RwLock {
    read: Lock,
    write: Lock,
}

impl RwLock {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        let side = |kind| Lock::new(handle.clone(), name, kind);
        Self { read: side(HoldKind::Read), write: side(HoldKind::Write) }
    }

    /// The side for reading. Many owners hold it at the same time.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.rw_lock("prices").read().acquire().await?;
    /// lease.ensure_held()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self) -> Lock {
        self.read.clone()
    }

    /// The side for writing. One owner holds it, and no caller reads meanwhile.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.rw_lock("prices").write().acquire().await?;
    /// println!("token {}", lease.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
