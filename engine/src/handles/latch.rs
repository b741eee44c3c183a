//! The latch: opens once it is counted down to zero.

use std::{fmt, future::Future, time::Duration};

use super::{
    alive::Handle,
    counter::{CounterHandle, checked_count},
    description::LatchDescription,
};
use crate::{count_error::CountError, counters::entry::work::Work, error::InspectError, transport::Counter};

/// A latch: a number that is counted down to zero, by any process. Then it is open, and the callers that wait go on.
/// [`Engine::latch`](crate::Engine::latch) makes the handle. It can be used many times, also by several tasks at once.
///
/// A latch that was never set, that was deleted, or that has reached zero does not exist on the server, and is open. A
/// caller sees a latch open only if it was open when a server was asked, or when this engine counted it down to zero. A
/// latch that is set again at once may have been open unseen. On the server it is a Redisson `RCountDownLatch`: Java
/// processes share it.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// let ready = engine.latch("workers-ready");
/// ready.try_set(2).await?;
/// ready.count_down().await?; // the first worker
/// ready.count_down().await?; // the second worker
/// ready.opened().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a latch handle does nothing until it is used"]
pub struct Latch {
    counter: CounterHandle,
}

impl Latch {
    pub(crate) fn new(handle: Handle, name: &str) -> Self {
        Self { counter: CounterHandle::new(handle, name, Counter::Latch) }
    }

    /// Sets how long [`opened`](Self::opened) waits, counted from the call. At most ten years. Default: no limit. The call
    /// returns within this time and one command timeout (default 1 s): at the end of the wait the server is asked once
    /// more.
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
    /// let ready = engine.latch("workers-ready").wait(Duration::from_millis(50));
    /// ready.try_set(1).await?;
    /// assert!(matches!(ready.opened().await, Err(CountError::TimedOut { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, time: Duration) -> Self {
        self.counter.wait = Some(time);
        self
    }

    /// Sets the number to count down, if the latch is open. `false`: it is not open, and was not changed.
    ///
    /// # Errors
    /// [`CountError::Unknown`]: no definite answer for `unavailable_after` (default 10 s); it may have counted.
    /// [`CountError::Unavailable`]: the same, and it certainly did not count. [`CountError::Invalid`]: `count` is zero or
    /// above 2^31 - 1, or the name cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no latches. [`CountError::LimitReached`]: `waiters_max` is reached.
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
    /// let ready = engine.latch("workers-ready");
    /// assert!(ready.try_set(2).await?);
    /// assert!(!ready.try_set(5).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_set(&self, count: u32) -> impl Future<Output = Result<bool, CountError>> + Send + use<> {
        let begun = checked_count("count", count, 1).map(|count| self.counter.call(Work::SetIfAbsent(count)));
        async move { Ok(begun?.await?.result != 0) }
    }

    /// Counts down by one, and returns what is left. At zero the latch opens. Counting down an open latch changes nothing
    /// and returns 0. Works when the server is out of memory.
    ///
    /// # Errors
    /// [`CountError::Unknown`]: no definite answer for `unavailable_after` (default 10 s); it may have counted.
    /// [`CountError::Invalid`]: the name cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no latches. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Once the future was polled, the count-down goes on, whether the future is dropped or not. The engine repeats it
    /// until it is answered, at the latest until a minute before `counter_memory` is over: 4 min from the first send by
    /// default.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(2).await?;
    /// assert_eq!(ready.count_down().await?, 1);
    /// assert_eq!(ready.count_down().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_down(&self) -> impl Future<Output = Result<u32, CountError>> + Send + use<> {
        let begun = self.counter.call(Work::CountDown);
        async move { begun.await.map(|counted| u32::try_from(counted.left.max(0)).unwrap_or(u32::MAX)) }
    }

    /// Waits until the latch is open. Returns at once if it is open already.
    ///
    /// # Errors
    /// [`CountError::TimedOut`]: the [`wait`](Self::wait) is over, and the latch was not open.
    /// [`CountError::Unavailable`]: the wait is over without a definite answer, or no definite answer came for
    /// `unavailable_after` (default 10 s). [`CountError::Invalid`]: the name or the wait cannot be used.
    /// [`CountError::Refused`]: the server refuses the request until its settings or the key change.
    /// [`CountError::Unsupported`]: the transport keeps no latches. [`CountError::LimitReached`]: `waiters_max` is reached.
    /// [`CountError::ShuttingDown`]: the engine is shutting down or has ended.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// engine.latch("never-set").opened().await?; // at once
    /// # Ok(())
    /// # }
    /// ```
    pub fn opened(&self) -> impl Future<Output = Result<(), CountError>> + Send + use<> {
        let begun = self.counter.call(Work::Open);
        async move { begun.await.map(drop) }
    }

    /// Asks the server what is left to count down; 0 if the latch is open.
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
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(3).await?;
    /// assert_eq!(ready.count().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&self) -> impl Future<Output = Result<i64, InspectError>> + Send + use<> {
        self.counter.read()
    }

    /// Asks the server what is left to count down, and adds how many callers of this engine wait. For logs and operators.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    /// As [`count`](Self::count).
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(3).await?;
    /// let seen = ready.describe().await?;
    /// assert_eq!((seen.count, seen.waiting), (3, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&self) -> impl Future<Output = Result<LatchDescription, InspectError>> + Send + use<> {
        let seen = self.counter.seen();
        async move {
            let (name, count, waiting) = seen.await?;
            Ok(LatchDescription { name, count, waiting })
        }
    }

    /// Deletes the latch, so that it is open. `false`: it was open already.
    ///
    /// # Errors
    /// As [`try_set`](Self::try_set).
    ///
    /// # Cancel safety
    /// If the future is dropped, the latch may have been deleted, or may be deleted within a command timeout.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let ready = engine.latch("workers-ready");
    /// ready.try_set(3).await?;
    /// assert!(ready.delete().await?);
    /// ready.opened().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&self) -> impl Future<Output = Result<bool, CountError>> + Send + use<> {
        let begun = self.counter.call(Work::Delete);
        async move { Ok(begun.await?.result != 0) }
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latch({:?})", self.counter)
    }
}
