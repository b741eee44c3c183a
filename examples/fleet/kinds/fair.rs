//! The fair lock: one holder at a time, first come, first served, across the fleets on one server.

use super::kind::{Contest, Kind};
use crate::windows::Share;

pub(crate) const FAIR: Kind = Kind {
    name: "fair",
    lock: |engine, name, _| (engine.fair_lock(name), Share::Alone),
    contest: Contest::Locks,
};
