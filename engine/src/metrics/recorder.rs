use super::Event;

/// Receives every event of an engine. [`EngineBuilder::recorder`](crate::EngineBuilder::recorder) installs it.
///
/// A recorder matches the events it counts and ignores the others. Events and their fields may be added in a later
/// version, so every `match` needs a wildcard:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use leasehold::{Event, Recorder, metrics::LockEvent};
///
/// /// Counts lost leases of the class `orders`.
/// #[derive(Default)]
/// struct Losses(AtomicU64);
///
/// impl Recorder for Losses {
///     fn record(&self, event: &Event<'_>) {
///         match event {
///             Event::Lock(lock, LockEvent::Lost { .. }) if lock.class.name() == "orders" => {
///                 self.0.fetch_add(1, Ordering::Relaxed);
///             }
///             _ => {}
///         }
///     }
/// }
/// ```
///
/// **Thread.** The engine calls the recorder on a thread of its own, `leasehold-recorder`, with one event after the
/// other. The events of each engine thread come in the order in which they happened, usually within 5 ms. So a slow or
/// blocked recorder delays no lease and no caller. An engine [on the caller's
/// runtime](crate::EngineBuilder::on_current_runtime) calls the recorder where the event happens, so that tests with
/// paused time are exact; there a recorder that blocks, blocks the runtime.
///
/// **Dropped events.** At most [`EVENTS_MAX`](super::EVENTS_MAX) events wait for the recorder. The engine drops further
/// events and counts them in [`Snapshot::events_dropped`](crate::Snapshot::events_dropped). The engine's own
/// [`Metrics`](crate::Metrics), [`Snapshot`](crate::Snapshot) and [`Losses`](crate::Losses) count in place and miss no
/// event.
///
/// **A panic** ends at the event. The engine does not call the recorder again, because its numbers may be half changed.
/// It sets [`Snapshot::recorder_panicked`](crate::Snapshot::recorder_panicked), writes one log line, and counts all
/// later events as dropped. The engine goes on.
///
/// [`Engine::shutdown`](crate::Engine::shutdown) waits, for at most 1 s of its limit, until the recorder has received
/// every event. The thread ends, and drops the recorder, when the last handle of the engine is gone and no event waits.
///
/// Two sums hold whenever no call is in progress. Waits started = granted + shared + refused + timed out + failed +
/// cancelled + waiting. Leases granted = released (with any outcome) + lost + held.
pub trait Recorder: Send + Sync + 'static {
    /// One event happened.
    fn record(&self, event: &Event<'_>);
}
