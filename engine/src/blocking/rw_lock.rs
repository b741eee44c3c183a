use super::lock::Lock;

/// A read/write lock for threads. [`Engine::rw_lock`](super::Engine::rw_lock) makes it. As
/// [`leasehold::RwLock`](crate::RwLock).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, blocking};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// let prices = engine.rw_lock("prices");
/// prices.write().acquire()?.release()?;
/// prices.read().acquire()?.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock handle does nothing until one of its sides is acquired"]
pub struct RwLock {
    lock: crate::RwLock,
}

impl RwLock {
    pub(super) fn of(lock: crate::RwLock) -> Self {
        Self { lock }
    }

    /// The side for reading. Many owners hold it at the same time.
    pub fn read(&self) -> Lock {
        Lock::of(self.lock.read())
    }

    /// The side for writing. One owner holds it, and no caller reads meanwhile.
    pub fn write(&self) -> Lock {
        Lock::of(self.lock.write())
    }
}
