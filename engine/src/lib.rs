#![doc = include_str!("../README.md")]

mod acquire;
mod audit;
mod builder;
pub mod clock;
mod config;
mod dispatch;
mod engine;
mod error;
#[cfg(leasehold_fault)]
mod faults;
pub mod fencing;
mod guard;
mod inner;
pub mod key;
mod lane_slot;
mod lease;
pub mod log;
mod losses;
pub mod metrics;
pub mod owner;
mod pending_tasks;
mod primitives;
mod release;
mod renewal;
pub mod routing;
mod shutdown;
mod span;
mod supervisor;
mod threads;
pub mod transport;

pub use audit::AuditReport;
pub use builder::EngineBuilder;
pub use config::EngineConfig;
pub use engine::{Engine, Snapshot};
pub use error::{
    AcquireError, BuildError, InspectError, Invalid, NotHeld, ReleaseError, RenewError, RunError,
};
pub use fencing::FencingToken;
pub use lease::{
    Lease,
    state::{LeaseState, LossReason, TTL_MIN, margin},
};
pub use losses::{LOSS_NAME_BYTES_KEPT, LOSSES_KEPT, Loss, LossEvent, Losses};
pub use metrics::{ContendedLock, LockClass, Metrics, Recorder, ReleaseOutcome, RenewalOutcome};
pub use primitives::{
    acquire_all::{AcquireAll, BulkAcquire},
    lock::{Holder, Lock, ReentryScope},
};
pub use shutdown::ShutdownReport;
pub use transport::{AuditLevel, Finding};
