//! One acquire of a composition, from its start to its outcome. The outcome is recorded once, also if the call is
//! dropped.

use std::{fmt::Display, sync::Arc};

use tracing::field::Empty;

use crate::{
    error::AcquireError,
    inner::Inner,
    log::Span,
    metrics::{Composition, CompositionOutcome, EngineEvent},
};

/// A call that is not over. Dropping it records that the call was cancelled.
pub(super) struct Outcome {
    engine: Arc<Inner>,
    composition: Composition,
    over: bool,
    span: Span,
}

impl Outcome {
    /// `engine` counts the call. `name`: what the span shows.
    pub(super) fn begin(engine: &Arc<Inner>, composition: Composition, name: impl Display) -> Self {
        let span = Span::debug(|| match composition {
            Composition::Multi => tracing::debug_span!(
                "multi_lock.acquire",
                otel.status_code = Empty,
                lock.names = %name,
                lock.outcome = Empty,
            ),
            Composition::Quorum => tracing::debug_span!(
                "quorum_lock.acquire",
                otel.status_code = Empty,
                lock.name = %name,
                lock.outcome = Empty,
            ),
        });
        Self { engine: engine.clone(), composition, over: false, span }
    }

    /// The span of the call.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Ends the call and records its outcome.
    pub(super) fn end(mut self, outcome: CompositionOutcome) {
        self.over = true;
        self.record(outcome);
    }

    fn record(&self, outcome: CompositionOutcome) {
        self.span.record("lock.outcome", outcome.as_str());
        if outcome == CompositionOutcome::Failed {
            self.span.record("otel.status_code", "ERROR");
        }
        let composition = self.composition;
        self.engine.events.record_engine(EngineEvent::CompositionEnded { composition, outcome });
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if !self.over {
            self.record(CompositionOutcome::Cancelled);
        }
    }
}

/// What an acquire with this error counts as.
pub(super) fn of_error(error: &AcquireError) -> CompositionOutcome {
    match error {
        AcquireError::TimedOut { .. } => CompositionOutcome::TimedOut,
        _ => CompositionOutcome::Failed,
    }
}
