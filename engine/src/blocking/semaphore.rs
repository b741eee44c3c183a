use std::time::Duration;

use super::block_on;
use crate::{CountError, InspectError};

/// A semaphore for threads: a number of permits that processes share. Permits have no owner and do not expire.
/// [`Engine::semaphore`](super::Engine::semaphore) makes it. As [`leasehold::Semaphore`](crate::Semaphore).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, blocking};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// let exports = engine.semaphore("exports");
/// exports.try_set(3)?; // the first process sets the number
/// exports.acquire(1)?;
/// exports.release(1)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore handle does nothing until it is used"]
pub struct Semaphore {
    semaphore: crate::Semaphore,
}

impl Semaphore {
    pub(super) fn of(semaphore: crate::Semaphore) -> Self {
        Self { semaphore }
    }

    /// Sets how long [`acquire`](Self::acquire) blocks. Default: no limit. As
    /// [`leasehold::Semaphore::wait`](crate::Semaphore::wait).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// use std::time::Duration;
    /// use leasehold::CountError;
    ///
    /// let exports = engine.semaphore("exports").wait(Duration::from_millis(20));
    /// assert!(matches!(exports.acquire(1), Err(CountError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self, time: Duration) -> Self {
        Self::of(self.semaphore.wait(time))
    }

    /// Blocks until this many permits are available, and takes all of them at once.
    ///
    /// # Errors
    /// As [`leasehold::Semaphore::acquire`](crate::Semaphore::acquire).
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
    /// let exports = engine.semaphore("exports");
    /// exports.try_set(3)?;
    /// exports.acquire(2)?;
    /// assert_eq!(exports.available()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire(&self, permits: u32) -> Result<(), CountError> {
        block_on(self.semaphore.acquire(permits))
    }

    /// Takes this many permits if they are available now. `false`: they are not.
    ///
    /// # Errors
    /// As [`leasehold::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
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
    /// let exports = engine.semaphore("exports");
    /// exports.try_set(1)?;
    /// assert!(exports.try_acquire(1)?);
    /// assert!(!exports.try_acquire(1)?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_acquire(&self, permits: u32) -> Result<bool, CountError> {
        block_on(self.semaphore.try_acquire(permits))
    }

    /// Adds this many permits. Neither the engine nor the server checks that they were taken before.
    ///
    /// # Errors
    /// As [`leasehold::Semaphore::release`](crate::Semaphore::release).
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
    /// let exports = engine.semaphore("exports");
    /// exports.release(2)?;
    /// assert_eq!(exports.available()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn release(&self, permits: u32) -> Result<(), CountError> {
        block_on(self.semaphore.release(permits))
    }

    /// Sets the number of permits if the semaphore does not exist. `false`: it exists, and was not changed.
    ///
    /// # Errors
    /// As [`leasehold::Semaphore::try_set`](crate::Semaphore::try_set).
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
    /// let exports = engine.semaphore("exports");
    /// assert!(exports.try_set(3)?);
    /// assert!(!exports.try_set(5)?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_set(&self, permits: u32) -> Result<bool, CountError> {
        block_on(self.semaphore.try_set(permits))
    }

    /// Asks the server how many permits are available. The answer may be out of date when it arrives.
    ///
    /// # Errors
    /// As [`leasehold::Semaphore::available`](crate::Semaphore::available).
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
    /// assert_eq!(engine.semaphore("exports").available()?, 0); // never set
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn available(&self) -> Result<i64, InspectError> {
        block_on(self.semaphore.available())
    }

    /// The async form of the same handle.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let exports = engine.semaphore("exports");
    /// assert_eq!(blocking::block_on(exports.as_async().add(5))?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &crate::Semaphore {
        &self.semaphore
    }
}
