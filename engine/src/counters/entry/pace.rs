//! The times by which an entry decides. Pure.

use std::time::Duration;

/// The times by which an entry decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) command_timeout: Duration,
    pub(crate) unavailable_after: Duration,
    pub(crate) remember: Duration,
    pub(crate) safety_poll: Duration,
}
