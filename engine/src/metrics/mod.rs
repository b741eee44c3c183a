//! What happens, told as events: code calls a method named for the event, whoever listens makes metrics of it.
//!
//! [`Recorder`] hears the events. [`EngineBuilder::metrics`](crate::EngineBuilder::metrics) makes the engine count them
//! itself; [`Metrics::read`] then reads every metric of [`descriptors::ALL`], and the features `prometheus` and
//! `opentelemetry` export the same numbers under the same names.

pub mod descriptors;

mod class;
mod events;
mod hot;
mod live;
mod numbers;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod reading;
mod recorder;
mod user;

pub use class::{CLASSES_MAX, DEFAULT_CLASS, LockClass, OTHER_CLASS};
pub(crate) use class::{ClassId, Classes};
pub(crate) use events::Events;
pub use hot::ContendedLock;
pub(crate) use hot::{HotLocks, run as name_hot_locks};
pub(crate) use numbers::Numbers;
pub use reading::{Distribution, Family, Metrics, Sample, Value};
pub use recorder::{
    Ask, AskAnswer, AskCause, EngineThread, Operation, Recorder, ReleaseOutcome, RenewalOutcome,
};
pub use user::EVENTS_MAX;
pub(crate) use user::UserRecorder;
