//! One test at a time: six servers, two engines and a thousand tasks fill two cores, and a machine that is late is
//! taken for an engine that is late.

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// Waits for its turn, which lasts until this is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
