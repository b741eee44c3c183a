use std::{sync::Arc, time::Duration};

use super::RenewalAnswer;
use crate::{clock::Instant, key::LockKey, owner::Owner};

/// Asks for the lock once. Repeating it with the same owner is safe.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub key: Arc<LockKey>,
    /// The owner that asks.
    pub owner: Owner,
    /// How long the server keeps the lock unless it is renewed.
    pub ttl: Duration,
    /// Where the fencing token comes from.
    pub fencing: Fencing,
    /// The latest moment of execution, on the engine's clock.
    pub execute_by: Instant,
}

/// Where a grant's fencing token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The server's clock: microseconds × 1024. Leaves nothing on the server.
    ServerClock,
}

/// Releases a lock.
#[derive(Clone, Debug)]
pub struct Release {
    /// The lock.
    pub key: Arc<LockKey>,
    /// The owner that releases it.
    pub owner: Owner,
}

/// One member of a renewal batch: sent without an answer, returned with one.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lock.
    pub key: Arc<LockKey>,
    /// The owner that holds it.
    pub owner: Owner,
    /// The hold lasts at least this long from the moment of execution.
    pub ttl: Duration,
    /// The latest moment of execution, on the engine's clock.
    pub execute_by: Instant,
    /// The engine's own mark, returned unchanged.
    pub ticket: u64,
    /// The result.
    pub answer: RenewalAnswer,
}
