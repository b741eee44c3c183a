//! One file per primitive that users name; the handle is the builder. Built so far: the lock, and many locks in one call.

pub(crate) mod acquire_all;
pub(crate) mod lock;
