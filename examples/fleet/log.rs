//! What this process held, and when: with `--log`, a line of JSON for each grant, release and loss.
//!
//! Times are nanoseconds of CLOCK_BOOTTIME, the engine's clock and the same for all processes of a machine: the logs of
//! several fleets tell together who held what at once.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    sync::{Mutex, PoisonError},
};

use leasehold::{Lease, Loss, clock::Instant};
use serde_json::{Value, json};

/// Keeps nothing if nobody asked for it.
#[derive(Default)]
pub(crate) struct Log {
    lines: Option<Mutex<Lines>>,
}

struct Lines {
    file: BufWriter<File>,
    /// The first: what is missing then is told at the end.
    last_error: Option<io::Error>,
}

impl Log {
    /// A new file; an old one of this name is replaced.
    pub(crate) fn create(path: &str) -> Result<Self, String> {
        let file = File::create(path).map_err(|error| format!("--log {path}: {error}"))?;
        Ok(Self { lines: Some(Mutex::new(Lines { file: BufWriter::new(file), last_error: None })) })
    }

    /// The lease was returned at `at`.
    pub(crate) fn granted(&self, lease: &Lease, at: Instant) {
        self.add(|| of_lease("granted", lease, at));
    }

    /// It is about to be given back, and entitled its holder until `at`.
    pub(crate) fn released(&self, lease: &Lease, at: Instant) {
        self.add(|| of_lease("released", lease, at));
    }

    /// Its holder's task heard at `at` that it was lost.
    pub(crate) fn heard(&self, lease: &Lease, at: Instant) {
        self.add(|| of_lease("heard", lease, at));
    }

    /// The engine told its loss. It entitled nobody after the earlier of the two times.
    pub(crate) fn lost(&self, loss: &Loss) {
        self.add(|| {
            json!({
                "event": "lost",
                "name": *loss.name,
                "token": loss.fencing_token.as_i64(),
                "at_ns": loss.at.as_nanos(),
                "deadline_ns": loss.deadline.as_nanos(),
                "reason": loss.reason.as_str(),
            })
        });
    }

    /// The engine lost so many that are not told singly.
    pub(crate) fn missed(&self, count: u64) {
        self.add(|| json!({ "event": "missed", "count": count }));
    }

    /// Writes out what is kept back; what went wrong up to now.
    pub(crate) fn flush(&self) -> Option<String> {
        let mut lines = self.lines.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = lines.file.flush();
        lines.note(flushed);
        lines.last_error.as_ref().map(io::Error::to_string)
    }

    fn add(&self, line: impl FnOnce() -> Value) {
        let Some(lines) = &self.lines else { return };
        let line = line();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writeln!(lines.file, "{line}");
        lines.note(written);
    }
}

impl Lines {
    fn note(&mut self, result: io::Result<()>) {
        self.last_error = self.last_error.take().or(result.err());
    }
}

fn of_lease(event: &str, lease: &Lease, at: Instant) -> Value {
    let token = lease.fencing_token().as_i64();
    json!({ "event": event, "name": lease.name(), "token": token, "at_ns": at.as_nanos() })
}
