//! The same locks for threads: calls that block instead of futures. No runtime is needed.
//!
//! An [`Engine`] of this module is a handle of a [`leasehold::Engine`](crate::Engine), which has threads of its own. A
//! blocked caller costs its thread and nothing else. Names, settings, errors and promises are those of the async API.
//! What has no blocking form here can be called with [`block_on`].
//!
//! Every call that blocks panics inside async code, as tokio's blocking calls do: it would stop the tasks of that
//! thread. Use the async API there, or `tokio::task::spawn_blocking`. The [guide](crate::guide::blocking) has more.
//!
//! # Examples
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use leasehold::{Engine, blocking};
//! use leasehold_memory::MemoryTransport;
//!
//! let engine = blocking::Engine::build(Engine::builder(MemoryTransport::new()))?;
//! let lease = engine.lock("orders:42").wait(Duration::from_secs(5)).acquire()?;
//! lease.ensure_held()?; // before each guarded step
//! lease.release()?;
//! engine.shutdown(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```

mod block_on;
mod engine;
mod latch;
mod lease;
mod lock;
mod rw_lock;
mod semaphore;

pub use block_on::block_on;
pub use engine::Engine;
pub use latch::Latch;
pub use lease::Lease;
pub use lock::Lock;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
