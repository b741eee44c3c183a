use std::sync::Arc;

use super::{ErrorKind, HoldKind, Op, Outcome, TransportError};
use crate::{clock::Instant, key::LockKey, owner::Owner};

/// One operation on one hold, as a value. The engine makes it, the transport sends it and sets its outcome. A call can
/// be stored, sent alone or in a batch, and sent again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The lock.
    pub key: Arc<LockKey>,
    /// The kind of the hold.
    pub kind: HoldKind,
    /// What the server is to do.
    pub op: Op,
    /// The owner of the hold.
    pub owner: Owner,
    /// The latest moment of execution, on the engine's clock. For a release: the moment until which the engine waits
    /// for the answer. A server may execute a release later, because a late release does no harm.
    pub execute_by: Instant,
    /// Only for acquires of [`Fenced`](HoldKind::Fenced) holds: a grant moves the lock's counter this much further than its
    /// token. The engine gives the tokens between the two to the next holders of the same grant. Each repeat of an acquire
    /// has the same number, so the token of a hold is the counter less this number. 0 for a grant that stays with its holder.
    pub reserved_tokens: u16,
    /// The engine's own mark, returned unchanged.
    pub ticket: u64,
    /// The result. [`Outcome::Pending`] until the transport has set it.
    pub outcome: Outcome,
}

impl Call {
    /// A call without an outcome yet, with the ticket 0.
    pub fn new(key: Arc<LockKey>, kind: HoldKind, op: Op, owner: Owner, execute_by: Instant) -> Self {
        Self { key, kind, op, owner, execute_by, reserved_tokens: 0, ticket: 0, outcome: Outcome::Pending }
    }

    /// The same call with the engine's own mark.
    pub fn with_ticket(self, ticket: u64) -> Self {
        Self { ticket, ..self }
    }

    /// The same call with this number of tokens reserved above the token of its grant.
    pub fn with_reserved_tokens(self, reserved_tokens: u16) -> Self {
        Self { reserved_tokens, ..self }
    }

    /// The same call with another latest moment of execution.
    pub fn with_execute_by(self, execute_by: Instant) -> Self {
        Self { execute_by, ..self }
    }

    /// The outcome at a transport that does not know this kind of hold or this operation. Nothing was sent.
    pub fn unsupported(&self, transport: &str) -> Outcome {
        let detail =
            format!("the transport {transport} knows no {:?} of a hold of the kind {}", self.op, self.kind);
        Outcome::Failed(TransportError::without_effect(ErrorKind::Misconfigured, None, detail))
    }

    /// The same call, answered.
    pub fn answered(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }
}
