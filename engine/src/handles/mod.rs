//! What users hold: the engine and its builder, a lock, a lease, many locks at once, the report of a shutdown or an
//! audit.

mod alive;
mod audit;
mod builder;
mod bulk;
mod counter;
mod description;
mod engine;
mod identity;
mod latch;
mod lease;
mod lock;
mod permits;
mod rw_lock;
mod semaphore;
pub(crate) mod shutdown;
mod wall_clock;

pub use audit::AuditReport;
pub use builder::EngineBuilder;
pub use bulk::{AcquireAll, BulkAcquire};
pub use description::{
    Description, Holder, LatchDescription, PermitsDescription, Place, SemaphoreDescription,
};
pub use engine::{Engine, Snapshot};
pub use latch::Latch;
pub(crate) use lease::lost;
pub use lease::{DowngradeError, Lease};
pub use lock::{Lock, ReentryScope};
pub use permits::{Permit, Permits};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use shutdown::ShutdownReport;
