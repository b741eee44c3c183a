//! The plain lock: one holder at a time.

use super::kind::{Contest, Kind, plain};

pub(crate) const EXCLUSIVE: Kind = Kind { name: "exclusive", lock: plain, contest: Contest::Locks };
