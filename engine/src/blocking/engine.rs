use std::time::Duration;

use super::{block_on, latch::Latch, lock::Lock, rw_lock::RwLock, semaphore::Semaphore};
use crate::{BuildError, EngineBuilder, Invalid, ReentryScope, ShutdownReport};

/// An engine for threads. A clone is a cheap handle of the same engine. [`Engine::build`] makes it, or
/// [`Engine::new`] from an engine that async code uses too.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Engine, blocking};
/// use leasehold_memory::MemoryTransport;
///
/// let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
/// let threads: Vec<_> = (0..4)
///     .map(|number| {
///         let engine = engine.clone();
///         std::thread::spawn(move || {
///             let _lease = engine.lock("printer").acquire()?;
///             println!("thread {number} prints"); // one at a time, in all processes
///             Ok::<_, leasehold::AcquireError>(())
///         })
///     })
///     .collect();
/// for thread in threads {
///     thread.join().expect("no panic")?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    engine: crate::Engine,
}

impl Engine {
    /// Builds an engine. Blocks until both lanes are connected and checked, for at most `unavailable_after`.
    ///
    /// # Errors
    /// As [`EngineBuilder::build`]. [`BuildError::Invalid`] also for a builder with
    /// [`on_current_runtime`](EngineBuilder::on_current_runtime) or
    /// [`calls_on_current_runtime`](EngineBuilder::calls_on_current_runtime).
    ///
    /// # Panics
    /// Inside async code; see [the module](super).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use leasehold::{Engine, blocking};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let builder = Engine::builder(MemoryTransport::new()).ttl(Duration::from_secs(10));
    /// let engine = blocking::Engine::build(builder)?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn build(builder: EngineBuilder) -> Result<Self, BuildError> {
        if builder.calls_on_users_runtime() {
            return Err(BuildError::Invalid(on_your_runtime("builder")));
        }
        let engine = block_on(builder.build())?;
        Self::new(engine).map_err(BuildError::Invalid)
    }

    /// The blocking form of an engine. Both forms can be used at the same time.
    ///
    /// # Errors
    /// [`Invalid`]: the engine, or its calls, run on a runtime of yours
    /// ([`on_current_runtime`](EngineBuilder::on_current_runtime),
    /// [`calls_on_current_runtime`](EngineBuilder::calls_on_current_runtime)). If that runtime stood still, a blocked thread would
    /// wait for ever.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::{Engine, blocking};
    /// use leasehold_memory::MemoryTransport;
    ///
    /// let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let for_threads = blocking::Engine::new(engine.clone())?;
    /// let task = tokio::task::spawn_blocking(move || for_threads.lock("report").acquire());
    /// let lease = task.await??;
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(engine: crate::Engine) -> Result<Self, Invalid> {
        if engine.inner().calls_on_users_runtime() {
            return Err(on_your_runtime("engine"));
        }
        Ok(Self { engine })
    }

    /// The async form of the same engine: for metrics, losses, snapshots and the other synchronous calls, and for
    /// futures to be run with [`block_on`](super::block_on).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").acquire()?;
    /// assert_eq!(engine.as_async().snapshot().held, 1);
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &crate::Engine {
        &self.engine
    }

    /// A handle of the lock with this name. As [`leasehold::Engine::lock`](crate::Engine::lock).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.lock("orders:42").acquire()?;
    /// lease.release()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.engine.lock(name))
    }

    /// A handle of the lock with this name, whose tokens come from a counter beside it. As
    /// [`leasehold::Engine::fenced_lock`](crate::Engine::fenced_lock).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let lease = engine.fenced_lock("ledger:7").acquire()?;
    /// println!("token {}", lease.fencing_token()); // store it beside the data
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.engine.fenced_lock(name))
    }

    /// A handle of the lock with this name whose callers poll. As
    /// [`leasehold::Engine::spin_lock`](crate::Engine::spin_lock).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// engine.spin_lock("counter:7").acquire()?.release()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.engine.spin_lock(name))
    }

    /// A handle of the lock with this name, granted in the order of arrival across all processes. As
    /// [`leasehold::Engine::fair_lock`](crate::Engine::fair_lock).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// engine.fair_lock("tickets").acquire()?.release()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::of(self.engine.fair_lock(name))
    }

    /// The read/write lock with this name. As [`leasehold::Engine::rw_lock`](crate::Engine::rw_lock).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let prices = engine.rw_lock("prices");
    /// let (one, two) = (prices.read().acquire()?, prices.read().acquire()?); // readers share it
    /// assert!(prices.write().try_acquire()?.is_none());
    /// # drop((one, two));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::of(self.engine.rw_lock(name))
    }

    /// The semaphore with this name. As [`leasehold::Engine::semaphore`](crate::Engine::semaphore).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let exports = engine.semaphore("exports");
    /// exports.try_set(3)?;
    /// exports.acquire(1)?;
    /// exports.release(1)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::of(self.engine.semaphore(name))
    }

    /// The latch with this name. As [`leasehold::Engine::latch`](crate::Engine::latch).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(1)?;
    /// ready.count_down()?;
    /// ready.opened()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::of(self.engine.latch(name))
    }

    /// Makes a new re-entry scope: one for each thread makes locks re-entrant as a thread's mutex is. As
    /// [`leasehold::Engine::reentry`](crate::Engine::reentry).
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, blocking};
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
    /// let scope = engine.reentry();
    /// let outer = engine.lock("acct:7").reentry(&scope).acquire()?;
    /// let inner = engine.lock("acct:7").reentry(&scope).acquire()?; // does not wait
    /// # drop((outer, inner));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentry(&self) -> ReentryScope {
        self.engine.reentry()
    }

    /// Ends the engine in order, and blocks for at most `timeout`. Threads that wait for a lock get
    /// [`ShuttingDown`](crate::AcquireError::ShuttingDown). As
    /// [`leasehold::Engine::shutdown`](crate::Engine::shutdown).
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
    /// assert_eq!(engine.shutdown(Duration::from_secs(5)).released, 1);
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        block_on(self.engine.shutdown(timeout))
    }
}

fn on_your_runtime(field: &'static str) -> Invalid {
    let remedy = "runs on your runtime, which a blocked thread may keep from running; \
                  build it without on_current_runtime and calls_on_current_runtime";
    Invalid::new(field, "on_current_runtime or calls_on_current_runtime", remedy)
}
