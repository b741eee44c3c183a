use super::{Remaining, ServerTime};

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
