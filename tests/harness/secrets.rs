//! The secrets of all tests bear one marker, and what is logged anywhere in a test run is searched for it.
//!
//! `tests/tidy/secrets.rs` holds the tests to the marker. [`watch`] is called wherever a server is started, so every test
//! binary with a server of the harness listens from then on, at every target up to `DEBUG`: to spans and events of
//! `tracing`, and to what libraries write by `log`. A line with the marker is written to `target/secrets-told`; `tests/run`
//! empties that folder first, and fails when it is not empty in the end. Errors, `Debug` texts and findings of the audit
//! are heard where they are logged; those that tests print are searched for in the output of the run, and
//! `Numbers::read` searches the labels of all metrics.
//!
//! A test never fails by it: a panic inside a subscriber would be another fault, and hide this one.

use std::{
    fmt::{Debug, Write as _},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Once,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*};

/// What every secret of a test has in it, and nothing else.
pub const MARKER: &str = "hunter2";

/// Listens from now on, once in a process. A binary with a subscriber of its own keeps it.
pub fn watch() {
    WATCHING.call_once(|| {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/secrets-told"));
        let _ = tracing::subscriber::set_global_default(Registry::default().with(Listener::new(folder)));
        if log::set_logger(Box::leak(Box::new(Listener::new(folder)))).is_ok() {
            log::set_max_level(log::LevelFilter::Debug);
        }
    });
}

/// From now on [`watch`] does nothing in this process. A bench would measure the listener too: it reads every span and event.
pub fn do_not_watch() {
    WATCHING.call_once(|| {});
}

static WATCHING: Once = Once::new();

/// Writes down what has the marker in it.
pub struct Listener {
    folder: PathBuf,
}

impl Listener {
    /// Writes into this folder, which is made when there is something to write.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn hear(&self, target: &str, told: &str) {
        if told.contains(MARKER) {
            let line = format!("{target}: {told}\n");
            let file = self.folder.join(std::process::id().to_string());
            let written = fs::create_dir_all(&self.folder)
                .and_then(|()| fs::OpenOptions::new().create(true).append(true).open(file))
                .and_then(|mut file| file.write_all(line.as_bytes()));
            if let Err(error) = written {
                eprintln!("{line}, which could not be written down: {error}");
            }
        }
    }
}

impl log::Log for Listener {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Debug
    }

    fn log(&self, record: &log::Record<'_>) {
        if log::Log::enabled(self, record.metadata()) {
            self.hear(record.target(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        self.hear(attributes.metadata().target(), &text.0);
    }

    fn on_record(&self, _: &span::Id, values: &span::Record<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        values.record(&mut text);
        self.hear("a span", &text.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.hear(event.metadata().target(), &text.0);
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(folder: &Path) -> String {
        fs::read_to_string(folder.join(std::process::id().to_string())).unwrap_or_default()
    }

    #[test]
    fn a_secret_in_any_line_is_written_down_and_other_lines_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = || Registry::default().with(Listener::new(folder.path()));
        tracing::subscriber::with_default(listener(), || {
            tracing::info!(server = "cache", "connected to redis");
            let _span = tracing::info_span!("lock.acquire", name = "a").entered();
        });
        assert_eq!(told(folder.path()), "");
        tracing::subscriber::with_default(listener(), || {
            tracing::debug!(error = ?format!("'app' '{MARKER}'"), "cannot connect");
            let _span = tracing::info_span!("lock.acquire", name = format!("1{MARKER}")).entered();
        });
        let arguments = format_args!("2{MARKER}").to_string();
        log::Log::log(
            &Listener::new(folder.path()),
            &log::Record::builder().level(log::Level::Warn).args(format_args!("{arguments}")).build(),
        );
        let told = told(folder.path());
        assert_eq!(told.lines().count(), 3, "{told}");
    }
}
