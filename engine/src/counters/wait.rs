//! One call on a semaphore or a latch, from its start to its outcome. The outcome is recorded once, also if the call is
//! dropped.

use std::{future::Future, pin::Pin};

use tracing::field::Empty;

use super::call::Call;
use crate::{
    inner::Inner,
    log::Span,
    metrics::{CountOutcome, EngineEvent},
};

/// A call that is not over. Dropping it records its outcome: cancelled, unless [`end`](Self::end) was called.
pub(crate) struct Wait<'a> {
    inner: &'a Inner,
    call: &'a Call,
    outcome: CountOutcome,
    span: Span,
}

impl<'a> Wait<'a> {
    pub(crate) fn begin(inner: &'a Inner, call: &'a Call) -> Self {
        let span = Span::debug(|| {
            tracing::debug_span!(
                "counter.call",
                otel.kind = "client",
                otel.status_code = Empty,
                counter.kind = call.counter.as_str(),
                counter.name = call.key.name(),
                counter.operation = call.work.as_str(),
                counter.outcome = Empty,
                counter.wait_ms = Empty,
            )
        });
        Self { inner, call, outcome: CountOutcome::Cancelled, span }
    }

    /// Polls the work of the call inside its span.
    pub(crate) fn around<'b, F: Future>(
        &'b self,
        work: Pin<&'b mut F>,
    ) -> impl Future<Output = F::Output> + use<'a, 'b, F> {
        self.span.around(work)
    }

    pub(crate) fn end(mut self, outcome: CountOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let (counter, outcome) = (self.call.counter, self.outcome);
        let waited = self.inner.clock.now() - self.call.joined;
        self.span.record("counter.outcome", outcome.as_str());
        self.span.record("counter.wait_ms", waited.as_secs_f64() * 1e3);
        if matches!(outcome, CountOutcome::Failed | CountOutcome::Unknown) {
            self.span.record("otel.status_code", "ERROR");
        }
        self.inner.events.record_engine(EngineEvent::CounterCall { counter, outcome, waited });
    }
}
