//! Moments of the engine's clock as times of the wall clock, for logs, answers and other processes.

use std::time::SystemTime;

use super::{engine::Engine, lease::Lease};
use crate::clock::Instant;

impl Engine {
    /// The wall-clock time of a moment on this engine's clock, for example of [`Loss::at`](crate::Loss::at). It is for
    /// logs: the engine decides nothing by the wall clock. The difference between the two clocks is read at this call.
    /// If the wall clock steps later, the result is off by that step, and a second call for the same moment returns
    /// another time.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::{LossEvent, Losses};
    ///
    /// async fn report(engine: &Engine, mut losses: Losses) {
    ///     while let Some(LossEvent::Lost(loss)) = losses.next().await {
    ///         println!("{} was lost at {:?}", loss.name, engine.system_time(loss.at));
    ///     }
    /// }
    /// # let losses = engine.losses();
    /// # engine.shutdown(std::time::Duration::from_secs(1)).await;
    /// # report(&engine, losses).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn system_time(&self, moment: Instant) -> SystemTime {
        self.inner().clock.system_time(moment)
    }
}

impl Lease {
    /// The deadline as a time of this machine's wall clock: the lease is not held after it, unless a renewal is
    /// confirmed before. After a loss it is the last deadline. It is for logs and for answers such as `Retry-After`; to
    /// decide, ask [`is_held`](Self::is_held) or [`remaining`](Self::remaining), which no step of the wall clock
    /// changes. The difference between the engine's clock and the wall clock is read at this call. If the wall clock
    /// steps later, the result is off by that step; on another machine it is off by the difference of the two wall
    /// clocks.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// let until = lease.deadline_system_time();
    /// assert!(until > SystemTime::now() + Duration::from_secs(20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline_system_time(&self) -> SystemTime {
        self.engine().clock.system_time(self.core().deadline())
    }
}
