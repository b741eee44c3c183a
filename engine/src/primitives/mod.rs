//! One file for each primitive; the handle of a primitive is its builder. Built so far: the lock, and many locks in one
//! call.

pub(crate) mod acquire_all;
pub(crate) mod lock;
