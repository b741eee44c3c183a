use std::time::Duration;

use super::{ServerTime, TransportError};
use crate::fencing::FencingToken;

/// A definite answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// The owner holds the lock, for at least the ttl from `at`.
    Granted {
        /// Higher than that of every earlier grant of this lock.
        token: FencingToken,
        /// When.
        at: ServerTime,
    },
    /// Somebody else holds it. Proves nothing about earlier sends that were not answered.
    Held {
        /// How long that hold lasts unless it is renewed.
        remaining: Remaining,
        /// When.
        at: ServerTime,
    },
    /// Not executed: it came after `execute_by`.
    TooLate {
        /// When.
        at: ServerTime,
    },
}

/// What is left of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// It runs out after this time unless it is renewed.
    For(Duration),
    /// It has no expiry: a peer left it so.
    NoExpiry,
    /// The server cannot tell.
    NotKnown,
}

/// A definite answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The owner held the lock, and now nobody does.
    Released {
        /// How many watchers the notice reached, all clients of the server counted; `None`: cannot be known.
        listeners: Option<u32>,
        /// When.
        at: ServerTime,
    },
    /// The owner did not hold it; nothing was changed.
    NotYours {
        /// When.
        at: ServerTime,
    },
}

/// What came of one renewal.
#[derive(Clone, Debug)]
pub enum RenewalAnswer {
    /// Not asked yet. A transport never returns it.
    None,
    /// The hold now lasts for at least the ttl from `at`.
    Renewed {
        /// What was left of the hold before.
        found: Duration,
        /// When.
        at: ServerTime,
    },
    /// The owner does not hold the lock; nothing was changed.
    NotYours {
        /// When.
        at: ServerTime,
    },
    /// Not executed: it came after `execute_by`.
    TooLate {
        /// When.
        at: ServerTime,
    },
    /// No definite answer, or a definite refusal: see `effect`.
    Failed(TransportError),
}

/// Who holds a lock, as far as anybody can see it from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Its holds. Empty: free. Other clients' data may show more than one, or counts above 1.
    pub holds: Vec<Hold>,
    /// How long they last; meaningless when there are none.
    pub remaining: Remaining,
    /// When.
    pub at: ServerTime,
}

/// One hold of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who: opaque text, not necessarily one of ours.
    pub owner: String,
    /// How often. Ours is always 1 on the server.
    pub count: u64,
}
