//! The semaphore: a shared number of permits without owners.

use std::{fmt, future::Future, time::Duration};

use super::{
    alive::Handle,
    counter::{Counted, CounterHandle, checked_count, checked_permits},
    description::SemaphoreDescription,
};
use crate::{count_error::CountError, counters::entry::work::Work, error::InspectError, transport::Counter};

/// A semaphore: a number of permits that all processes share. [`Engine::semaphore`](crate::Engine::semaphore) makes the
/// handle. It can be used many times, also by several tasks at once.
///
/// A permit has no owner and no ttl. The permits of a process that dies are lost until they are added again, so use a
/// [`Lock`](crate::Lock) where a holder may die. On the server it is a Redisson `RSemaphore`: Java processes share it.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let downloads = engine.semaphore("downloads");
/// downloads.try_set(2).await?; // the first process sets the number
/// downloads.acquire(1).await?;
/// // at most two downloads at once, over all processes
/// downloads.release(1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a semaphore handle does nothing until it is used"]
pub struct Semaphore {
    counter: CounterHandle,
}

impl Semaphore {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        Self { counter: CounterHandle::new(handle, name, Counter::Semaphore) }
    }

    /// Sets how long [`acquire`](Self::acquire) waits for permits, counted from the call. At most ten years. Default: no
    /// limit. The call returns within this time and one command timeout (default 1 s): at the end of the wait the server
    /// is asked once more. So a wait of zero asks once.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::Duration;
    /// use leasehold::CountError;
    ///
    /// let permits = engine.semaphore("downloads").wait(Duration::from_millis(50));
    /// let outcome = permits.acquire(1).await; // never set: there are none
    /// assert!(matches!(outcome, Err(CountError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.counter.wait = Some(time);
        self
    }

    /// Waits until this many permits are available, and takes all of them at once. Callers of one engine are served in
    /// the order in which they came; between processes there is no order. So a call for many permits may wait behind
    /// the calls of other processes for few.
    ///
    /// # Errors
    /// [`CountError::TimedOut`]: the [`wait`](Self::wait) is over, and there were not enough permits.
    /// [`CountError::Unavailable`]: the wait is over without a definite answer, or no definite answer came for
    /// `unavailable_after` (default 10 s); nothing is taken. [`CountError::Invalid`]: `permits` is zero or above 2^31 - 1,
    /// or the name or the wait cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no semaphores. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future removes the caller from the queue. Permits that were taken for it go to the next caller, or
    /// back to the server.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// permits.try_set(3).await?;
    /// permits.acquire(2).await?;
    /// assert_eq!(permits.available().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, permits: u32) -> impl Future<Output = Result<(), CountError>> + Send + use<> {
        let begun = checked_permits(permits).map(|permits| self.counter.call(Work::Take(permits)));
        async move { begun?.await.map(drop) }
    }

    /// Takes this many permits if they are available now. `false`: they are not. Callers of this engine that wait
    /// already go first.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `TimedOut`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// permits.try_set(1).await?;
    /// assert!(permits.try_acquire(1).await?);
    /// assert!(!permits.try_acquire(1).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self, permits: u32) -> impl Future<Output = Result<bool, CountError>> + Send + use<> {
        let begun = checked_permits(permits).map(|permits| self.counter.try_call(Work::Take(permits)));
        async move { Ok(begun?.await?.is_some()) }
    }

    /// Adds this many permits, and makes the semaphore if it does not exist. Neither the engine nor the server checks that
    /// they were taken before.
    /// Works when the server is out of memory.
    ///
    /// # Errors
    /// [`CountError::Unknown`]: no definite answer for `unavailable_after` (default 10 s); it may have counted.
    /// [`CountError::Invalid`]: `permits` is zero or above 2^31 - 1, or the name cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no semaphores. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Once the future was polled, the release goes on, whether the future is dropped or not. The engine repeats it until
    /// it is answered, at the latest until a minute before `counter_memory` is over: 4 min from the first send by default.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// permits.release(2).await?;
    /// assert_eq!(permits.available().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(&self, permits: u32) -> impl Future<Output = Result<(), CountError>> + Send + use<> {
        let begun = checked_permits(permits).map(|permits| self.counter.call(Work::Give(permits)));
        async move { begun?.await.map(drop) }
    }

    /// Sets the number of permits if the semaphore does not exist. `false`: it exists, and was not changed.
    ///
    /// # Errors
    /// [`CountError::Unknown`]: no definite answer for `unavailable_after` (default 10 s); it may have counted.
    /// [`CountError::Unavailable`]: the same, and it certainly did not count. [`CountError::Invalid`]: `permits` is above
    /// 2^31 - 1, or the name cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no semaphores. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the number may have been set, or may be set within a command timeout.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// assert!(permits.try_set(3).await?);
    /// assert!(!permits.try_set(5).await?);
    /// assert_eq!(permits.available().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_set(&self, permits: u32) -> impl Future<Output = Result<bool, CountError>> + Send + use<> {
        let begun =
            checked_count("permits", permits, 0).map(|count| self.counter.call(Work::SetIfAbsent(count)));
        async move { Ok(begun?.await?.result != 0) }
    }

    /// Adds permits, or removes them if `permits` is negative. The number may become negative; then callers wait until it
    /// has grown. Returns the new number.
    ///
    /// # Errors
    /// As [`try_set`](Self::try_set).
    ///
    /// # Cancel safety
    /// As [`try_set`](Self::try_set).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// assert_eq!(permits.add(5).await?, 5);
    /// assert_eq!(permits.add(-2).await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&self, permits: i32) -> impl Future<Output = Result<i64, CountError>> + Send + use<> {
        let begun = self.counter.call(Work::Add(permits));
        async move { begun.await.map(|counted| counted.result) }
    }

    /// Takes all available permits, and returns their number.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `TimedOut`.
    ///
    /// # Cancel safety
    /// If the future is dropped, permits that were taken for it go back.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// permits.try_set(3).await?;
    /// assert_eq!(permits.drain().await?, 3);
    /// assert_eq!(permits.available().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drain(&self) -> impl Future<Output = Result<i64, CountError>> + Send + use<> {
        let begun = self.counter.call(Work::Drain);
        async move { begun.await.map(|Counted { result, .. }| result) }
    }

    /// Asks the server how many permits are available. The answer may be out of date when it arrives, so do not decide by
    /// it whether to acquire: call [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// [`InspectError::Invalid`]: the name cannot be used. [`InspectError::Transport`]: no answer, or a refusal.
    /// [`InspectError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the answer.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// assert_eq!(permits.available().await?, 0); // never set
    /// # Ok(())
    /// # }
    /// ```
    pub fn available(&self) -> impl Future<Output = Result<i64, InspectError>> + Send + use<> {
        self.counter.read()
    }

    /// Asks the server for the available permits, and adds how many callers of this engine wait. For logs and operators.
    ///
    /// # Errors
    /// As [`available`](Self::available).
    ///
    /// # Cancel safety
    /// As [`available`](Self::available).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let permits = engine.semaphore("downloads");
    /// permits.try_set(3).await?;
    /// assert_eq!(
    ///     permits.describe().await?.to_string(),
    ///     "semaphore \"downloads\": 3 permits available, 0 waiting here"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(
        &self,
    ) -> impl Future<Output = Result<SemaphoreDescription, InspectError>> + Send + use<> {
        let seen = self.counter.seen();
        async move {
            let (name, available, waiting) = seen.await?;
            Ok(SemaphoreDescription { name, available, waiting })
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({:?})", self.counter)
    }
}
