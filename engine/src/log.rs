//! Log lines and spans, written so that the user's `tracing` subscriber cannot harm a lease.
//!
//! A subscriber is user code: it can panic (`tracing_subscriber::fmt` does when stderr is closed), block or be slow. So
//! a line from an engine's thread is put into a queue of [`LINES_MAX`] lines, and a thread of the process,
//! `leasehold-log`, passes it to the subscriber. A line that finds the queue full is dropped and counted. The next line
//! that is written is followed by a warning with the count. On any other thread lines are written in place: also what an engine
//! does on a runtime of the user, by [`on_current_runtime`](crate::EngineBuilder::on_current_runtime) or
//! [`calls_on_current_runtime`](crate::EngineBuilder::calls_on_current_runtime). A panic of the subscriber is caught, and its
//! line counts as dropped.

use std::{
    cell::Cell,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use tracing::{Level, Value, level_filters::LevelFilter, span::Entered};

use crate::{guard, process::Process};

/// The maximum number of queued log lines from the engines' threads of one process.
pub const LINES_MAX: usize = 4096;

/// Writes one log line; `line` holds the `tracing` macro. For engines and transports.
///
/// Never blocks on an engine's thread, and never panics. `level` is the level of the macro: nothing is queued if no
/// subscriber wants lines of this level.
pub fn line(level: Level, line: impl FnOnce() + Send + 'static) {
    if level <= LevelFilter::current() && !enqueue(line) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of dropped lines of this process: the queue was full, or the subscriber panicked.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Marks this thread as an engine's thread: its lines are queued from now on.
pub(crate) fn mark_engine_thread() {
    ON_ENGINE_THREAD.set(true);
}

type Line = Box<dyn FnOnce() + Send>;

/// The queue of one process.
struct Lines {
    process: Process,
    /// `None`: the operating system could not create the log thread.
    queue: Option<SyncSender<Line>>,
    /// The queue of a forked child, which does not have the log thread of its parent.
    of_child: OnceLock<Box<Lines>>,
}

impl Lines {
    fn start() -> Self {
        Self { process: Process::current(), queue: start(), of_child: OnceLock::new() }
    }

    fn queue() -> Option<&'static SyncSender<Line>> {
        let mut lines = LINES.get_or_init(Self::start);
        while lines.process.is_forked() {
            lines = lines.of_child.get_or_init(|| Box::new(Self::start()));
        }
        lines.queue.as_ref()
    }
}

thread_local! {
    static ON_ENGINE_THREAD: Cell<bool> = const { Cell::new(false) };
}

static LINES: OnceLock<Lines> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

// Writes or queues the line. `false`: the line was dropped.
fn enqueue(line: impl FnOnce() + Send + 'static) -> bool {
    if !ON_ENGINE_THREAD.get() {
        return guard::call(line).is_some();
    }
    Lines::queue().is_some_and(|lines| lines.try_send(Box::new(line)).is_ok())
}

// Starts the log thread with the first line. The thread never ends, because it belongs to the process. `None`: the
// operating system could not create a thread.
fn start() -> Option<SyncSender<Line>> {
    let (lines, queued) = sync_channel(LINES_MAX);
    let thread = thread::Builder::new().name("leasehold-log".into()).spawn(move || tell_all(&queued));
    thread.is_ok().then_some(lines)
}

fn tell_all(queued: &Receiver<Line>) {
    let mut told = 0;
    for line in queued {
        if guard::call(line).is_none() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        let dropped = dropped();
        if dropped > told {
            let dropped = dropped - std::mem::replace(&mut told, dropped);
            let _ = guard::call(|| {
                tracing::warn!(
                    dropped,
                    "log lines were dropped: the tracing subscriber panics or is too slow"
                )
            });
        }
    }
}

/// A span whose subscriber may panic at any call. A span that no subscriber wants is empty.
#[derive(Default)]
pub(crate) struct Span(Option<tracing::Span>);

impl Span {
    /// A span of a call, of the level debug. Nothing is made while no subscriber wants this level.
    pub(crate) fn debug(make: impl FnOnce() -> tracing::Span) -> Self {
        if Level::DEBUG <= LevelFilter::current() { Self::new(make) } else { Self(None) }
    }

    fn new(make: impl FnOnce() -> tracing::Span) -> Self {
        Self(guard::call(make).filter(|span| !span.is_disabled()))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn record(&self, field: &str, value: impl Value) {
        if let Some(span) = &self.0 {
            let _ = guard::call(|| {
                span.record(field, value);
            });
        }
    }

    /// Polls the future inside this span. A reference: an argument of an async function takes its memory twice.
    pub(crate) fn around<'a, F: Future>(
        &'a self,
        mut work: Pin<&'a mut F>,
    ) -> impl Future<Output = F::Output> + use<'a, F> {
        poll_fn(move |context| {
            let _inside = self.enter();
            work.as_mut().poll(context)
        })
    }

    fn enter(&self) -> Inside<'_> {
        Inside(self.0.as_ref().and_then(|span| guard::call(|| span.enter())))
    }
}

impl Clone for Span {
    fn clone(&self) -> Self {
        Self(self.0.as_ref().and_then(|span| guard::call(|| span.clone())))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            let _ = guard::call(|| drop(span));
        }
    }
}

/// A span of background work, with no call's span as parent. It is opened and closed through the same queue as log
/// lines, in their order.
pub(crate) struct BackgroundSpan {
    level: Level,
    open: Arc<Mutex<Span>>,
}

impl BackgroundSpan {
    pub(crate) fn open(level: Level, make: impl FnOnce() -> tracing::Span + Send + 'static) -> Self {
        let open = Arc::<Mutex<Span>>::default();
        let opened = open.clone();
        line(level, move || *opened.lock().unwrap_or_else(PoisonError::into_inner) = Span::new(make));
        Self { level, open }
    }
}

impl Drop for BackgroundSpan {
    fn drop(&mut self) {
        if self.level > LevelFilter::current() {
            return;
        }
        let open = self.open.clone();
        let close = move || drop(std::mem::take(&mut *open.lock().unwrap_or_else(PoisonError::into_inner)));
        if !enqueue(close) {
            // The subscriber blocks or panics. Closing the span here would call the subscriber on this thread.
            std::mem::forget(self.open.clone());
        }
    }
}

struct Inside<'a>(Option<Entered<'a>>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(entered) = self.0.take() {
            let _ = guard::call(|| drop(entered));
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span(wanted: {})", self.is_wanted())
    }
}
