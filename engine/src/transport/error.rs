use std::{error::Error, fmt, sync::Arc};

use serde::Serialize;

use super::ServerTime;
use crate::{foreign_text::ForeignText, routing::topology::NodeId, serialized};

/// A request without a definite answer, or a definite refusal. serde writes `kind` and `detail`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TransportError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Whether the request may have been executed, or may still be executed.
    #[serde(skip)]
    pub effect: Effect,
    /// The node, if it is known.
    #[serde(skip)]
    pub node: Option<NodeId>,
    /// What happened, in words that an operator can act on. Names the node's address and holds no secret.
    #[serde(serialize_with = "serialized::text")]
    pub detail: Arc<str>,
    /// The underlying error.
    #[serde(skip)]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of error that a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection, or the connection was lost.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The server answers, but cannot execute this request for the moment: loading, busy, read-only, out of memory ...
    NotReady,
    /// The server refuses this client: wrong password, missing right.
    Denied,
    /// The key holds a value that is no lock, or the token counter of a fenced lock holds none. Nothing was changed.
    WrongType,
    /// The request or the configuration cannot work on this topology.
    Misconfigured,
    /// The server's answer makes no sense.
    Protocol,
}

impl ErrorKind {
    /// Whether repeating the request is useless until the cause is removed, for example by an operator.
    pub fn is_final(self) -> bool {
        match self {
            ErrorKind::Denied | ErrorKind::WrongType | ErrorKind::Misconfigured => true,
            ErrorKind::Unreachable | ErrorKind::TimedOut | ErrorKind::NotReady | ErrorKind::Protocol => false,
        }
    }

    /// A short fixed word, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::TimedOut => "timed_out",
            ErrorKind::NotReady => "not_ready",
            ErrorKind::Denied => "denied",
            ErrorKind::WrongType => "wrong_type",
            ErrorKind::Misconfigured => "misconfigured",
            ErrorKind::Protocol => "protocol",
        }
    }
}

/// Whether a request without a yes or a no may have had, or may still have, an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request was certainly not executed and never will be.
    None,
    /// The request may have been executed, or may still be executed, but not after this server time.
    Unknown {
        /// The latest execution time that was sent with the request. For a release: the estimated server time at the
        /// moment of sending.
        not_after: ServerTime,
    },
}

impl TransportError {
    /// An error of a request that certainly had no effect.
    pub fn without_effect(kind: ErrorKind, node: Option<NodeId>, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, effect: Effect::None, node, detail: detail.into(), source: None }
    }

    /// An error of a request that may have been executed, or may still be executed, until `not_after`.
    pub fn unknown(kind: ErrorKind, not_after: ServerTime, detail: impl Into<Arc<str>>) -> Self {
        let node = Some(not_after.clock.node);
        Self { kind, effect: Effect::Unknown { not_after }, node, detail: detail.into(), source: None }
    }

    /// Adds the underlying error to this error.
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error of a request to this node.
    pub fn of_node(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }

    /// The same error with another text: what happened, in words an operator can act on, without a secret.
    pub fn with_detail(self, detail: impl Into<Arc<str>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Whether the request may have been executed, or may still be executed.
    pub(crate) fn may_have_effect(&self) -> bool {
        self.effect != Effect::None
    }

    /// The same error of a request that certainly had no effect.
    pub fn never_executed(self) -> Self {
        Self { effect: Effect::None, ..self }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2000}", ForeignText(&self.detail))
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
