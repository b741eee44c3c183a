use std::{sync::Arc, time::Duration};

use super::RenewalAnswer;
use crate::{clock::Instant, key::LockKey, owner::Owner};

/// Asks for the lock once. Repeating it with the same owner is safe.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub key: Arc<LockKey>,
    /// Who asks.
    pub owner: Owner,
    /// How long the server keeps the lock unless it is renewed.
    pub ttl: Duration,
    /// Where the fencing token comes from.
    pub fencing: Fencing,
    /// Our clock; it must not be executed later.
    pub execute_by: Instant,
}

/// Where a grant's fencing token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The server's clock: microseconds × 1024. Leaves nothing on the server.
    ServerClock,
}

/// Gives a lock back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The lock.
    pub key: Arc<LockKey>,
    /// Who gives it back.
    pub owner: Owner,
}

/// One member of a renewal batch; goes out without an answer and comes back with one.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lock.
    pub key: Arc<LockKey>,
    /// Who holds it.
    pub owner: Owner,
    /// At least this long from the moment of execution.
    pub ttl: Duration,
    /// Our clock; it must not be executed later.
    pub execute_by: Instant,
    /// The engine's own mark, returned unchanged.
    pub ticket: u64,
    /// What came of it.
    pub answer: RenewalAnswer,
}
