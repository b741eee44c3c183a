//! The fenced lock: one holder at a time, with tokens from a counter beside the lock.

use super::kind::{Contest, Kind};
use crate::windows::Share;

pub(crate) const FENCED: Kind = Kind {
    name: "fenced",
    lock: |engine, name, _| (engine.fenced_lock(name), Share::Alone),
    contest: Contest::Locks,
};
