//! What happens, told as events: code calls a method named for the event, whoever listens makes metrics of it.

pub mod descriptors;
mod recorder;
mod tally;

pub use recorder::{Recorder, ReleaseOutcome, RenewalOutcome};
pub(crate) use tally::Events;

/// How many lock classes one engine tells apart. What comes later counts as [`OTHER_CLASS`].
pub const CLASSES_MAX: usize = 64;
/// The class of locks that were given none.
pub const DEFAULT_CLASS: &str = "default";
/// The class of locks whose own was one too many.
pub const OTHER_CLASS: &str = "_other";
