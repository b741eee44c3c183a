use std::time::Duration;

use super::block_on;
use crate::{CountError, InspectError};

/// A latch for threads: callers wait until others have counted it down to zero.
/// [`Engine::latch`](super::Engine::latch) makes it. As [`leasehold::Latch`](crate::Latch).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::{Engine, blocking};
/// # use leasehold_memory::MemoryTransport;
/// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// let ready = engine.latch("workers-ready");
/// ready.try_set(2)?;
/// let worker = ready.clone();
/// let thread = std::thread::spawn(move || worker.count_down());
/// ready.count_down()?;
/// ready.opened()?; // both have counted down
/// thread.join().expect("no panic")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a latch handle does nothing until it is used"]
pub struct Latch {
    latch: crate::Latch,
}

impl Latch {
    pub(super) fn of(latch: crate::Latch) -> Self {
        Self { latch }
    }

    /// Sets how long [`opened`](Self::opened) blocks. Default: no limit. As
    /// [`leasehold::Latch::wait`](crate::Latch::wait).
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
    /// let ready = engine.latch("workers-ready").wait(Duration::from_millis(20));
    /// ready.try_set(1)?;
    /// assert!(matches!(ready.opened(), Err(CountError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self, time: Duration) -> Self {
        Self::of(self.latch.wait(time))
    }

    /// Sets the number to count down, if the latch is open. `false`: it is not open, and was not changed.
    ///
    /// # Errors
    /// As [`leasehold::Latch::try_set`](crate::Latch::try_set).
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
    /// let ready = engine.latch("workers-ready");
    /// assert!(ready.try_set(2)?);
    /// assert!(!ready.try_set(5)?);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn try_set(&self, count: u32) -> Result<bool, CountError> {
        block_on(self.latch.try_set(count))
    }

    /// Counts down by one, and returns what is left. At zero the latch opens.
    ///
    /// # Errors
    /// As [`leasehold::Latch::count_down`](crate::Latch::count_down).
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
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(2)?;
    /// assert_eq!((ready.count_down()?, ready.count_down()?), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn count_down(&self) -> Result<u32, CountError> {
        block_on(self.latch.count_down())
    }

    /// Blocks until the latch is open. Returns at once if it is open already.
    ///
    /// # Errors
    /// As [`leasehold::Latch::opened`](crate::Latch::opened).
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
    /// engine.latch("never-set").opened()?; // at once
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn opened(&self) -> Result<(), CountError> {
        block_on(self.latch.opened())
    }

    /// Asks the server what is left to count down; 0 if the latch is open.
    ///
    /// # Errors
    /// As [`leasehold::Latch::count`](crate::Latch::count).
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
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(3)?;
    /// assert_eq!(ready.count()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn count(&self) -> Result<i64, InspectError> {
        block_on(self.latch.count())
    }

    /// The async form of the same handle.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let ready = engine.latch("workers-ready");
    /// println!("{}", blocking::block_on(ready.as_async().describe())?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &crate::Latch {
        &self.latch
    }
}
