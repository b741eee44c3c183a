#![doc = include_str!("../README.md")]
//!
//! ## Where to begin
//!
//! - [`Engine::builder`] builds an engine; [`Engine::lock`] returns a [`Lock`]; [`Lock::acquire`] returns a [`Lease`].
//! - [`AcquireError`], [`ReleaseError`] and [`RunError`] say what to do with each outcome.
//! - The [`guide`] has one page for each task: [which lock for which job](guide::choosing), [ttl](guide::ttl),
//!   [fencing](guide::fencing), [losing a lease](guide::losing), [re-entry](guide::reentry), [waiting and
//!   fairness](guide::waiting), [readers and writers](guide::sharing), [semaphores, permits and
//!   latches](guide::counting), [many locks at once](guide::many), [all of several locks](guide::multi), [a quorum of
//!   servers](guide::quorum), [one leader](guide::leader), [a job per period](guide::job), [threads without a
//!   runtime](guide::blocking), [shutdown](guide::shutdown), [services](guide::services),
//!   [configuration](guide::configuration), [testing](guide::testing), [metrics](guide::metrics).

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", windows)))]
compile_error!(
    "leasehold needs a clock that goes on while the machine is suspended, and knows the one of Linux, macOS and \
     Windows: add the clock of this system to engine/src/system_clock.rs"
);

mod acquire;
mod answers;
pub mod blocking;
mod boxed_error;
mod calls_runtime;
pub mod clock;
mod compose;
mod config;
mod core;
mod count_error;
mod counters;
mod dispatch;
mod error;
#[cfg(leasehold_fault)]
mod faults;
pub mod fencing;
mod guard;
pub mod guide;
mod handles;
mod inner;
pub mod key;
mod label;
mod lane_slot;
mod lease;
pub mod log;
mod losses;
pub mod metrics;
pub mod owner;
mod pending_tasks;
mod permit_id;
mod process;
mod process_name;
mod recipes;
mod release;
mod renewal;
pub mod routing;
mod runtime_end;
mod serialized;
mod shared_threads;
mod shown_time;
mod span;
mod supervisor;
mod system_clock;
mod threads;
mod token_number;
pub mod transport;

pub use boxed_error::BoxedError;
pub use compose::{MemberLease, MultiError, MultiLease, MultiLock, Quorum, QuorumLease, QuorumLock, Tally};
pub use config::EngineConfig;
pub use count_error::CountError;
pub use error::{
    AcquireError, BuildError, InspectError, Invalid, NotHeld, ReleaseError, RenewError, RunError,
};
pub use fencing::{FencingMode, FencingToken};
pub use handles::{
    AcquireAll, AuditReport, BulkAcquire, Description, DowngradeError, Engine, EngineBuilder, Holder, Latch,
    LatchDescription, Lease, Lock, Permit, Permits, PermitsDescription, Place, ReentryScope, RwLock,
    Semaphore, SemaphoreDescription, ShutdownReport, Snapshot,
};
pub use label::{EngineLabel, LABEL_BYTES_MAX, LabelFault};
pub use lease::state::{LeaseState, LossReason, TTL_MIN, margin};
pub use losses::{LOSS_NAME_BYTES_KEPT, LOSSES_KEPT, Loss, LossEvent, Losses};
pub use metrics::{
    ContendedLock, Event, LockClass, LockKind, Metrics, Recorder, ReleaseOutcome, RenewalOutcome,
};
pub use recipes::{Job, JobOutcome, Leader, LeaderState, LeaderWatch, LeaseView};
pub use transport::{AuditLevel, Finding, LockMode, PermitCount};
