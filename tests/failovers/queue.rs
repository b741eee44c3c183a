//! One test at a time: six servers, two engines and a thousand tasks fill two cores, and a machine that is late is
//! taken for an engine that is late.

use std::sync::{Mutex, PoisonError};

use leasehold_tests::harness::stall::unless_stalled;

static TURN: Mutex<()> = Mutex::new(());

/// Waits for its turn and runs a test, again if it fails on a machine that stood still.
pub(crate) fn alone(test: impl Fn()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    unless_stalled(test);
}
