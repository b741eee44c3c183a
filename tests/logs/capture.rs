//! Keeps every span and event of this process, with the thread it was told on.
//!
//! One subscriber for all tests: which spans and events anybody wants is remembered for the whole process, and a second
//! subscriber that comes and goes would make that a race. A test that runs on one thread looks at that thread's.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, ThreadId},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*, registry::LookupSpan};

/// One span or event, as far as it has been told.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The names of the spans around it, the innermost first.
    pub(crate) inside: Vec<&'static str>,
    pub(crate) closed: bool,
    thread: ThreadId,
    id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Span,
    Event,
}

impl Record {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// What this thread tells from now on.
pub(crate) struct Capture {
    from: usize,
}

impl Capture {
    pub(crate) fn start() -> Self {
        static STARTED: OnceLock<()> = OnceLock::new();
        STARTED.get_or_init(|| {
            tracing::subscriber::set_global_default(Registry::default().with(Keeper)).expect("the only one");
            log::set_logger(&Keeper).expect("the only one");
            log::set_max_level(log::LevelFilter::Trace);
        });
        Self { from: kept().len() }
    }

    /// Of this thread.
    pub(crate) fn records(&self) -> Vec<Record> {
        let of_this_thread = |record: &Record| record.thread == thread::current().id();
        self.of_all_threads().into_iter().filter(of_this_thread).collect()
    }

    pub(crate) fn of_all_threads(&self) -> Vec<Record> {
        kept()[self.from..].to_vec()
    }

    /// The spans with this name.
    pub(crate) fn spans(&self, name: &str) -> Vec<Record> {
        let mut spans = self.records();
        spans.retain(|record| record.kind == Kind::Span && record.name == name);
        spans
    }

    /// The events of this target.
    pub(crate) fn events(&self, target: &str) -> Vec<Record> {
        let mut events = self.records();
        events.retain(|record| record.kind == Kind::Event && record.target == target);
        events
    }
}

/// What was written by `log`, which libraries beneath use.
pub(crate) fn text_of_logs() -> String {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

static LOGS: Mutex<String> = Mutex::new(String::new());
static KEPT: Mutex<Vec<Record>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Record>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper;

impl log::Log for Keeper {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}\n", record.level(), record.target(), record.args());
        LOGS.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
    }

    fn flush(&self) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keeper {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let inside = context.span_scope(id).into_iter().flatten().skip(1).map(|span| span.name()).collect();
        let (metadata, id) = (attributes.metadata(), id.into_u64());
        keep(Kind::Span, metadata, fields, inside, id);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, _: Context<'_, S>) {
        if let Some(record) = open_span(&mut kept(), id) {
            let mut fields = Fields(std::mem::take(&mut record.fields));
            values.record(&mut fields);
            record.fields = fields.0;
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let inside = context.event_scope(event).into_iter().flatten().map(|span| span.name()).collect();
        keep(Kind::Event, event.metadata(), fields, inside, 0);
    }

    fn on_close(&self, id: span::Id, _: Context<'_, S>) {
        if let Some(record) = open_span(&mut kept(), &id) {
            record.closed = true;
        }
    }
}

// Ids are given out again when a span is closed.
fn open_span<'a>(kept: &'a mut [Record], id: &span::Id) -> Option<&'a mut Record> {
    let is_it =
        |record: &&mut Record| record.kind == Kind::Span && record.id == id.into_u64() && !record.closed;
    kept.iter_mut().rev().find(is_it)
}

fn keep(
    kind: Kind,
    metadata: &'static tracing::Metadata<'static>,
    Fields(fields): Fields,
    inside: Vec<&'static str>,
    id: u64,
) {
    let (name, target, level) = (metadata.name(), metadata.target(), *metadata.level());
    let thread = thread::current().id();
    kept().push(Record { kind, name, target, level, fields, inside, closed: false, thread, id });
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {:?}", self.level, self.target, self.name, self.fields)
    }
}
