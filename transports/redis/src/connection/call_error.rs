//! Why a request got no reply, and what that says about its effect.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use leasehold::transport::{ErrorKind, TransportError};

use super::{
    deadline::Limit,
    link::{Failure, Kill},
    node_connection::Connection,
};
use crate::wire::{
    error_reply::{refusal, refused},
    redirect::Redirect,
    shown::shown,
};

/// Why a request got no reply.
#[derive(Debug)]
pub(crate) enum CallError {
    /// A redirect: the request was certainly not executed, and another node must be asked.
    Elsewhere(Redirect),
    /// Any other error.
    Failed(TransportError),
}

impl From<TransportError> for CallError {
    fn from(error: TransportError) -> Self {
        Self::Failed(error)
    }
}

impl Connection {
    pub(super) fn classify_failure(&self, failure: Failure, limit: Limit) -> CallError {
        if let (Failure::Refused(text), true) = (&failure, self.terms.in_cluster) {
            if let Some(redirect) = Redirect::read(text, &self.terms.address) {
                return CallError::Elsewhere(redirect);
            }
        }
        CallError::Failed(self.explain(failure, limit))
    }

    fn explain(&self, failure: Failure, limit: Limit) -> TransportError {
        let address = &self.terms.name;
        match failure {
            Failure::Refused(text) => self.explain_refusal(&text, limit),
            Failure::TimedOut => {
                self.unknown(ErrorKind::TimedOut, limit, format!("redis {address}: no answer in time"))
            }
            Failure::Lost(error) if error.is_before_request() => {
                self.without_effect(ErrorKind::Unreachable, &error.to_string())
            }
            Failure::Lost(error) => {
                self.unknown(ErrorKind::Unreachable, limit, format!("redis {address}: {error}"))
            }
        }
    }

    pub(crate) fn explain_refusal(&self, text: &str, limit: Limit) -> TransportError {
        let refusal = refusal(text);
        match refusal.map(|refusal| refusal.code) {
            // The server has lost the master role. The node leaves the server when this connection has ended.
            Some("READONLY") => self.end_because(&self.lost_role),
            // The node connects again when the cluster is up. Until then no caller asks.
            Some("CLUSTERDOWN") => self.end_because(&self.cluster_down),
            _ => {}
        }
        match refusal {
            Some(refusal) => self.of_node(refused(&self.terms.name, refusal, text)),
            None => self.unknown(
                ErrorKind::Protocol,
                limit,
                format!("redis {} answered: {}", self.terms.name, shown(text)),
            ),
        }
    }

    // What is sent is answered first, usually with the same refusal: a request without a reply may have had an effect.
    fn end_because(&self, cause: &AtomicBool) {
        if cause.swap(true, Ordering::SeqCst) {
            return;
        }
        self.in_flight.close();
        let link = self.link.clone();
        self.runtime.spawn(async move {
            link.answered(ANSWERED_WITHIN).await;
            link.kill();
        });
    }

    /// Handles a reply in an unexpected format. It closes the connection, because its replies may not belong to
    /// their requests any more.
    pub(crate) fn misread(&self, limit: Limit) -> TransportError {
        self.kill();
        let detail =
            format!("redis {} answered in an unexpected format; the connection was closed", self.terms.name);
        self.unknown(ErrorKind::Protocol, limit, detail)
    }

    fn unknown(&self, kind: ErrorKind, limit: Limit, detail: String) -> TransportError {
        TransportError::unknown(kind, limit.not_after, detail)
    }

    pub(super) fn without_effect(&self, kind: ErrorKind, why: &str) -> TransportError {
        let detail = format!("redis {}: {why}", self.terms.name);
        self.of_node(TransportError::without_effect(kind, None, detail))
    }

    fn of_node(&self, error: TransportError) -> TransportError {
        error.of_node(self.terms.clock_id.node)
    }
}

/// Replies that are on their way are here by then, unless the server is far away.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

pub(super) fn without_any_effect(call_error: CallError) -> CallError {
    match call_error {
        CallError::Failed(error) => CallError::Failed(error.never_executed()),
        elsewhere => elsewhere,
    }
}
