//! Leasehold's tests.

pub mod conservation;
pub mod every_event;
pub mod harness;
pub mod interposed;

/// The same settings after a change: settings that may get more fields are not built by a struct expression.
pub fn changed<T>(mut settings: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut settings);
    settings
}
