//! The read/write lock: readers together, or one writer.

use leasehold::{Engine, Lock};

use super::kind::{Contest, Kind};
use crate::windows::Share;

pub(crate) const READ_WRITE: Kind = Kind { name: "read-write", lock: side, contest: Contest::Locks };

fn side(engine: &Engine, name: &str, turn: usize) -> (Lock, Share) {
    let lock = engine.rw_lock(name);
    match turn % WRITES_EVERY {
        0 => (lock.write(), Share::Alone),
        _ => (lock.read(), Share::Beside),
    }
}

/// One turn of four writes.
const WRITES_EVERY: usize = 4;
