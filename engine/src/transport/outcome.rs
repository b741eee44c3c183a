use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{ErrorKind, Op, ServerTime, TransportError};
use crate::{fencing::FencingToken, serialized};

/// The result of a [`Call`](super::Call).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// No result yet. A transport never returns it.
    Pending,
    /// To an acquire: the owner holds the lock, for at least the ttl from `at`.
    Granted {
        /// Higher than the token of every earlier grant of a lock of this kind and name. A repeat by the holder of a
        /// fenced lock has the token of its grant.
        token: FencingToken,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To an acquire: another owner holds the lock. Proves nothing about earlier sends that were not answered.
    Busy {
        /// How long that hold lasts unless it is renewed.
        remaining: Remaining,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a queue or a beat: the owner has a place in the line of a fair lock.
    Queued {
        /// How long the present hold lasts unless it is renewed; of a free lock, how long until the head of the line is
        /// removed if it stays silent.
        remaining: Remaining,
        /// The number of places before this one, about.
        ahead: u32,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a beat: the lock is free and the owner's place is the head of the line.
    Turn {
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a renewal: the hold now lasts for at least the ttl from `at`.
    Renewed {
        /// The remaining time of the hold before this renewal.
        found: Duration,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a release: the owner held the lock, and now the hold has ended.
    Released {
        /// The number of watchers that the notice reached, over all clients of the server. `None`: not known.
        listeners: Option<u32>,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a downgrade: the owner's hold is a read hold now, for at least the ttl from `at`.
    Downgraded {
        /// The number of watchers that the notice reached. `None`: not known.
        listeners: Option<u32>,
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To a renewal, a downgrade or a release: the owner does not hold the lock; nothing was changed. To a beat: the
    /// owner has no place in the line.
    NotYours {
        /// The server time of the answer.
        at: ServerTime,
    },
    /// To any operation but a release: not executed, because the call arrived after `execute_by`.
    TooLate {
        /// The server time of the answer.
        at: ServerTime,
    },
    /// No definite answer, or a definite refusal: see [`TransportError::effect`].
    Failed(TransportError),
}

/// The remaining time of a hold. serde writes it in whole milliseconds, and null if there is no number.
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

impl Remaining {
    /// Whether the server cannot tell.
    pub(super) fn is_unknown(&self) -> bool {
        *self == Remaining::NotKnown
    }
}

impl Serialize for Remaining {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Remaining::For(left) => serialized::millis(left, to),
            Remaining::NoExpiry | Remaining::NotKnown => to.serialize_none(),
        }
    }
}

impl Outcome {
    /// The server time of the answer. `None`: there is no answer.
    pub fn at(&self) -> Option<ServerTime> {
        match self {
            Outcome::Granted { at, .. }
            | Outcome::Busy { at, .. }
            | Outcome::Queued { at, .. }
            | Outcome::Turn { at }
            | Outcome::Renewed { at, .. }
            | Outcome::Released { at, .. }
            | Outcome::Downgraded { at, .. }
            | Outcome::NotYours { at }
            | Outcome::TooLate { at } => Some(*at),
            Outcome::Pending | Outcome::Failed(_) => None,
        }
    }

    /// The error of a call without a definite answer.
    pub fn error(&self) -> Option<&TransportError> {
        match self {
            Outcome::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// The same answer, given on another clock or at another time of it.
    pub fn map_at(mut self, change: impl Fn(ServerTime) -> ServerTime) -> Self {
        match &mut self {
            Outcome::Granted { at, .. }
            | Outcome::Busy { at, .. }
            | Outcome::Queued { at, .. }
            | Outcome::Turn { at }
            | Outcome::Renewed { at, .. }
            | Outcome::Released { at, .. }
            | Outcome::Downgraded { at, .. }
            | Outcome::NotYours { at }
            | Outcome::TooLate { at } => *at = change(*at),
            Outcome::Pending | Outcome::Failed(_) => {}
        }
        self
    }

    /// The answer, or the error of a call without a definite one.
    ///
    /// # Errors
    /// The error of [`Failed`](Self::Failed).
    pub fn into_result(self) -> Result<Self, TransportError> {
        match self {
            Outcome::Failed(error) => Err(error),
            answer => Ok(answer),
        }
    }

    /// The definite answer to `op`, or the error of a call without one.
    ///
    /// # Errors
    /// The error of [`Failed`](Self::Failed). `Protocol` if the transport gave no answer, or the answer to another
    /// operation.
    pub(crate) fn definite(self, op: Op) -> Result<Self, TransportError> {
        let answer = self.into_result()?;
        if answer.answers(op) { Ok(answer) } else { Err(answer.out_of_place(op)) }
    }

    fn answers(&self, op: Op) -> bool {
        match self {
            Outcome::Granted { .. } => matches!(op, Op::Acquire { .. } | Op::Queue { .. }),
            Outcome::Busy { .. } => matches!(op, Op::Acquire { .. }),
            Outcome::Queued { .. } => matches!(op, Op::Queue { .. } | Op::Beat { .. }),
            Outcome::Turn { .. } => matches!(op, Op::Beat { .. }),
            Outcome::Renewed { .. } => matches!(op, Op::Renew { .. }),
            Outcome::Released { .. } => op == Op::Release,
            Outcome::Downgraded { .. } => matches!(op, Op::Downgrade { .. }),
            Outcome::NotYours { .. } => !matches!(op, Op::Acquire { .. } | Op::Queue { .. }),
            Outcome::TooLate { .. } => op.is_limited(),
            Outcome::Pending | Outcome::Failed(_) => false,
        }
    }

    /// The error of a call that was not answered, or was answered with the answer to another operation.
    pub(crate) fn out_of_place(&self, op: Op) -> TransportError {
        match self.at() {
            Some(at) => {
                let detail =
                    format!("the transport answered {op:?} with {self:?}, the answer to another operation");
                TransportError::unknown(ErrorKind::Protocol, at, detail)
            }
            None => TransportError::without_effect(ErrorKind::Protocol, None, "the transport gave no answer"),
        }
    }
}

/// The outcome of a call that a transport has made with `?`.
impl From<Result<Outcome, TransportError>> for Outcome {
    fn from(result: Result<Outcome, TransportError>) -> Self {
        result.unwrap_or_else(Outcome::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        routing::topology::{ClockId, NodeId},
        transport::Effect,
    };

    fn at() -> ServerTime {
        ServerTime { micros: 7, clock: ClockId { node: NodeId(0), epoch: 1 } }
    }

    #[test]
    fn an_answer_to_another_operation_proves_nothing() {
        let granted = Outcome::Granted { token: FencingToken::at_server_micros(1), at: at() };
        assert!(granted.clone().definite(Op::Acquire { ttl: Duration::ZERO }).is_ok());
        let error = granted.definite(Op::Release).unwrap_err();
        assert_eq!(
            (error.kind, error.effect),
            (ErrorKind::Protocol, Effect::Unknown { not_after: at() }),
            "{error}"
        );
        let not_yours = Outcome::NotYours { at: at() };
        assert!(not_yours.clone().definite(Op::Release).is_ok());
        assert!(not_yours.definite(Op::Acquire { ttl: Duration::ZERO }).is_err());
        assert!(Outcome::TooLate { at: at() }.definite(Op::Release).is_err());
    }

    #[test]
    fn a_call_without_an_answer_is_an_error_of_the_transport() {
        let error = Outcome::Pending.definite(Op::Release).unwrap_err();
        assert_eq!((error.kind, error.effect), (ErrorKind::Protocol, Effect::None));
    }
}
