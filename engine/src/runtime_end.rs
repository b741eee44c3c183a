//! The end of an engine whose calls run on a runtime of the user, when that runtime is shut down first.
//!
//! From then on nothing can be sent: a call would wait for ever. So every lease is lost, every caller is answered, and the
//! engine ends. The same happens if a thread of the engine ends before the engine, which no code does on purpose.

use std::sync::Arc;

use tracing::Level;

use crate::{handles::shutdown, inner::Inner, log};

/// Ends the engine when it is dropped, unless [`done`](Self::done) was called. The task that ends the engine in order holds
/// it, and a runtime drops its tasks when it is shut down.
pub(crate) struct EndsWithRuntime(Option<Arc<Inner>>);

impl EndsWithRuntime {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self(Some(inner.clone()))
    }

    /// The engine has ended, and all that it had to send is sent or given up.
    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for EndsWithRuntime {
    fn drop(&mut self) {
        if let Some(inner) = self.0.take() {
            end(&inner);
        }
    }
}

fn end(inner: &Arc<Inner>) {
    if has_work(inner) {
        log::line(Level::ERROR, || {
            tracing::error!(
                "the runtime of the engine's calls was shut down before the engine: its leases are lost, and each lock is \
                 free when its ttl is over; call Engine::shutdown first, and wait for it"
            );
        });
    }
    inner.begin_shutdown();
    shutdown::lose_all(inner);
    inner.end();
    inner.leave();
    inner.close_lanes();
}

fn has_work(inner: &Inner) -> bool {
    let totals = &inner.events.totals;
    let work = [&totals.held, &totals.callers, &totals.served, &totals.closing];
    work.into_iter().any(|count| count.value() > 0) || !inner.pending_tasks.are_done()
}
