//! Who wants a key: the callers queued for it, the one attempt to get it, and whose turn it is.
//!
//! `entry`, `queue`, `index`, `limits`, `turns`, `attempt`, `caller` are pure. `table` keeps the entries, `driver` serves
//! one entry while it has callers, `arrival`, `ending`, `release` and `resend` are the ways in and out, `closer` ends owners
//! in the background, `pacer` bounds how often entries ask a node by themselves, by the `crowd` that waits for it. `rooms`
//! bounds how much of many acquires or releases is under way on one node. Local hand-off will live between `entry` and
//! `release`; it is not built yet.

pub(crate) mod arrival;
pub(crate) mod attempt;
pub(crate) mod caller;
pub(crate) mod closer;
pub(crate) mod crowd;
pub(crate) mod driver;
mod ears;
pub(crate) mod ending;
pub(crate) mod entry;
mod index;
mod limits;
pub(crate) mod no_expiry;
pub(crate) mod offer;
pub(crate) mod pacer;
mod queue;
pub(crate) mod release;
mod resend;
pub(crate) mod rooms;
pub(crate) mod seat;
mod silence;
pub(crate) mod table;
pub(crate) mod turns;
pub(crate) mod wait;
mod wards;
