use std::{error::Error, fmt, sync::Arc};

use super::ServerTime;
use crate::routing::topology::NodeId;

/// A request that got no definite answer, or a definite refusal.
#[derive(Clone, Debug)]
pub struct TransportError {
    /// What kind of trouble.
    pub kind: ErrorKind,
    /// Whether the request may have been, or may yet be, executed.
    pub effect: Effect,
    /// Which node, if it is known.
    pub node: Option<NodeId>,
    /// What happened, in words an operator can act on; names the node's address, holds no secret.
    pub detail: Arc<str>,
    /// The underlying error.
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What kind of trouble a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No connection, or it was lost.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The server answers, but not this request, for the moment: loading, busy, read-only, out of memory ...
    NotReady,
    /// The server refuses this client: wrong password, missing right.
    Denied,
    /// The key holds something that is no lock. It was not touched.
    WrongType,
    /// The request or the configuration cannot work on this topology.
    Misconfigured,
    /// The server answered in a way that makes no sense.
    Protocol,
}

impl ErrorKind {
    /// Whether asking again is of no use before somebody changes something.
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

/// Whether a request that was not answered with a yes or a no may have had, or may yet have, an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Certainly not executed, and never will be.
    None,
    /// It may have been executed, or may still be, but not after this server time.
    Unknown {
        /// The latest execution time that went out with the request; for a release, the server time it was
        /// believed to be when it was sent.
        not_after: ServerTime,
    },
}

impl TransportError {
    /// An error of a request that certainly had no effect.
    pub fn without_effect(kind: ErrorKind, node: Option<NodeId>, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, effect: Effect::None, node, detail: detail.into(), source: None }
    }

    /// An error of a request that may have been, or may yet be, executed until `not_after`.
    pub fn unknown(kind: ErrorKind, not_after: ServerTime, detail: impl Into<Arc<str>>) -> Self {
        let node = Some(not_after.clock.node);
        Self { kind, effect: Effect::Unknown { not_after }, node, detail: detail.into(), source: None }
    }

    /// The same error with what caused it.
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
