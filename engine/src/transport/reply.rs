use std::time::Duration;

use super::{ServerTime, TransportError};
use crate::fencing::FencingToken;

/// A definite answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireReply {
    /// The owner holds the lock, for at least the ttl from `at`.
    Granted {
        /// Higher than the token of every earlier grant of this lock.
        token: FencingToken,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// Another owner holds the lock. Proves nothing about earlier sends that were not answered.
    Held {
        /// How long that hold lasts unless it is renewed.
        remaining: Remaining,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// Not executed: the request arrived after `execute_by`.
    TooLate {
        /// The server time of the answer.
        at: ServerTime,
    },
}

/// The remaining time of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remaining {
    /// The hold runs out after this time unless it is renewed.
    For(Duration),
    /// The hold has no expiry: another client left it without one.
    NoExpiry,
    /// The server cannot tell.
    NotKnown,
}

/// A definite answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReply {
    /// The owner held the lock, and now the lock is free.
    Released {
        /// The number of watchers that the notice reached, over all clients of the server. `None`: not known.
        listeners: Option<u32>,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// The owner did not hold the lock; nothing was changed.
    NotYours {
        /// The server time of the answer.
        at: ServerTime,
    },
}

/// The result of one renewal.
#[derive(Clone, Debug)]
pub enum RenewalAnswer {
    /// Not answered yet. A transport never returns it.
    None,
    /// The hold now lasts for at least the ttl from `at`.
    Renewed {
        /// The remaining time of the hold before this renewal.
        found: Duration,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// The owner does not hold the lock; nothing was changed.
    NotYours {
        /// The server time of the answer.
        at: ServerTime,
    },
    /// Not executed: the renewal arrived after `execute_by`.
    TooLate {
        /// The server time of the answer.
        at: ServerTime,
    },
    /// No definite answer, or a definite refusal: see [`TransportError::effect`].
    Failed(TransportError),
}

/// The holds of a lock, as the server shows them to any client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holds. Empty: the lock is free. Data of other clients may show more than one hold, or counts above 1.
    pub holds: Vec<Hold>,
    /// How long the holds last; without meaning if there are none.
    pub remaining: Remaining,
    /// The server time of the answer.
    pub at: ServerTime,
}

/// One hold of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The owner, as opaque text. It is not necessarily an owner of an engine.
    pub owner: String,
    /// How many times the owner holds the lock. A hold of an engine always counts 1 on the server.
    pub count: u64,
}

impl Inspection {
    /// What was seen at this server time.
    pub fn new(holds: Vec<Hold>, remaining: Remaining, at: ServerTime) -> Self {
        Self { holds, remaining, at }
    }
}

impl Hold {
    /// The hold of `owner`, which has acquired the lock `count` times.
    pub fn new(owner: impl Into<String>, count: u64) -> Self {
        Self { owner: owner.into(), count }
    }
}
