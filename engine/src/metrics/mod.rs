//! Events and metrics of an engine.
//!
//! The engine records each [`Event`] once. A [`Recorder`] of the user receives every event.
//! [`EngineBuilder::metrics`](crate::EngineBuilder::metrics) makes the engine count the events itself:
//! [`Metrics::read`] then reads every metric of [`descriptors::ALL`], and the features `prometheus` and `opentelemetry`
//! export the same numbers under the same names.
//!
//! To add a metric: a variant in `event.rs`, a descriptor in `descriptors.rs`, its place in `numbers/layout.rs`, and
//! what it counts in `numbers/count.rs`. A panel of `dashboards/` shows it.

pub mod descriptors;

mod class;
mod composition;
mod count;
mod elections;
mod event;
mod events;
mod hot;
mod label_names;
mod labels;
mod live;
mod numbers;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod reading;
mod recipe;
mod recorder;
mod user;

pub use class::{CLASSES_MAX, DEFAULT_CLASS, LockClass, OTHER_CLASS};
pub(crate) use class::{ClassId, Classes};
pub use composition::{Composition, CompositionOutcome};
pub(crate) use elections::{Candidacy, Elections};
pub use event::{
    Ask, AskAnswer, AskCause, CountOutcome, EngineEvent, EngineThread, Event, LockEvent, Operation,
    ReleaseOutcome, RenewalOutcome,
};
pub(crate) use events::Events;
pub use hot::{ContendedLock, HOT_LOCK_NAMES_MAX};
pub(crate) use hot::{HotLocks, run as name_hot_locks};
pub(crate) use labels::LabelSet;
pub use labels::{LockKind, LockLabels};
pub(crate) use numbers::Numbers;
pub use reading::{Distribution, Family, Metrics, Sample, Value};
pub use recipe::{JobEnd, TermEnd};
pub use recorder::Recorder;
pub use user::EVENTS_MAX;
pub(crate) use user::UserRecorder;
