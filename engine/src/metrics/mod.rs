//! What happens, told as events: code calls a method named for the event, whoever listens makes metrics of it.

mod recorder;
mod tally;

pub use recorder::{Recorder, ReleaseOutcome, RenewalOutcome};
pub(crate) use tally::Events;
