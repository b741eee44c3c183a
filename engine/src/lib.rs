#![doc = include_str!("../README.md")]

mod audit;
mod builder;
pub mod clock;
mod config;
mod contention;
mod engine;
mod errands;
mod error;
#[cfg(leasehold_fault)]
mod faults;
pub mod fencing;
mod guard;
pub mod key;
mod lanes;
mod lease;
pub mod log;
mod losses;
pub mod metrics;
pub mod owner;
mod primitives;
mod renewal;
pub mod routing;
mod shutdown;
mod span;
mod supervisor;
mod threads;
pub mod transport;
mod works;

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
