//! One file per primitive that users name; the handle is the builder. Built so far: the lock.

pub(crate) mod lock;
