//! One acquire call, from its start to its outcome. The outcome is recorded once, also if the call is dropped.

use tracing::field::Empty;

use super::{enqueue::Call, pending_grant::AcceptedLease};
use crate::{
    clock::Instant,
    error::AcquireError,
    inner::Inner,
    key::LockKey,
    log::Span,
    metrics::{LabelSet, LockEvent},
};

/// A call that is not over. Dropping it records that the call was cancelled.
pub(crate) struct Wait<'a> {
    inner: &'a Inner,
    call: &'a Call,
    over: bool,
    span: Span,
}

impl<'a> Wait<'a> {
    pub(crate) fn begin(inner: &'a Inner, call: &'a Call) -> Self {
        let labels = call.terms.labels;
        inner.events.record_lock(labels, LockEvent::WaitStarted);
        let span = Span::debug(|| {
            tracing::debug_span!(
                "lock.acquire",
                otel.kind = "client",
                otel.status_code = Empty,
                lock.class = inner.events.labels(labels).class.name(),
                lock.name = call.key.name(),
                lock.outcome = Empty,
                lock.wait_ms = Empty,
                lock.contended = Empty,
                lock.fencing_token = Empty,
            )
        });
        Self { inner, call, over: false, span }
    }

    /// The span of the call.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Ends the call and reports its outcome.
    pub(crate) fn end(mut self, outcome: &Result<Option<AcceptedLease>, AcquireError>) {
        self.over = true;
        self.tell_span(outcome);
        let Call { key, terms, joined, .. } = self.call;
        tell_end(self.inner, key, terms.labels, *joined, outcome);
    }

    fn tell_span(&self, outcome: &Result<Option<AcceptedLease>, AcquireError>) {
        if !self.span.is_wanted() {
            return;
        }
        let word = match outcome {
            Ok(Some(taken)) => {
                self.span.record("lock.wait_ms", (taken.at - self.call.joined).as_secs_f64() * 1e3);
                self.span.record("lock.contended", taken.contended);
                if let Some(token) = taken.token() {
                    self.span.record("lock.fencing_token", tracing::field::display(token));
                }
                if taken.first { "acquired" } else { "reentrant" }
            }
            Ok(None) => "busy",
            Err(AcquireError::TimedOut { .. }) => "timeout",
            Err(_) => {
                self.span.record("otel.status_code", "ERROR");
                "error"
            }
        };
        self.span.record("lock.outcome", word);
    }
}

/// Records the outcome of an acquire that began to wait at `since`.
pub(crate) fn tell_end(
    inner: &Inner,
    key: &LockKey,
    labels: LabelSet,
    since: Instant,
    outcome: &Result<Option<AcceptedLease>, AcquireError>,
) {
    let record = |event| inner.events.record_lock(labels, event);
    match outcome {
        Ok(Some(taken)) if taken.first => {
            let waited = taken.at - since;
            if taken.contended {
                inner.hot.note(key, waited);
            }
            record(LockEvent::Granted { waited, contended: taken.contended });
        }
        Ok(Some(_)) => record(LockEvent::Shared),
        Ok(None) => record(LockEvent::Refused),
        Err(AcquireError::TimedOut { waited }) => {
            inner.hot.note(key, *waited);
            record(LockEvent::TimedOut { waited: *waited });
        }
        Err(AcquireError::Unavailable { last_error, .. }) => {
            record(LockEvent::Failed { last_error: last_error.as_ref() });
        }
        Err(AcquireError::Refused(last_error)) => {
            record(LockEvent::Failed { last_error: Some(last_error) });
        }
        Err(_) => record(LockEvent::Failed { last_error: None }),
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.span.record("lock.outcome", "cancelled");
            self.inner.events.record_lock(self.call.terms.labels, LockEvent::Cancelled);
        }
    }
}
