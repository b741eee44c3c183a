//! The spin lock: one holder at a time; callers that wait poll, and hear no notices.

use super::kind::{Contest, Kind};
use crate::windows::Share;

pub(crate) const SPIN: Kind = Kind {
    name: "spin",
    lock: |engine, name, _| (engine.spin_lock(name), Share::Alone),
    contest: Contest::Locks,
};
