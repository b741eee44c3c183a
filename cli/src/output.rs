//! What the program prints: results to stdout, everything else to stderr.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    sync::{
        OnceLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{exit, failure::Failure, system_error::words};

/// Text for people, or with `--json` one JSON document in each line.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.is_json
    }

    /// Prints a result.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub(crate) fn result(self, text: &dyn fmt::Display, json: &Value) -> Result<(), Failure> {
        if self.is_json { self.print(json) } else { self.print(text) }
    }

    /// Prints a line to stdout.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub(crate) fn print(self, line: impl fmt::Display) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(|error| unwritable(&error))
    }

    /// Writes an event to stderr: as one line of text, or as JSON. A closed stderr is no error.
    pub(crate) fn event(self, event: &str, text: &dyn fmt::Display, mut json: Value) {
        if self.is_json {
            if let Value::Object(fields) = &mut json {
                fields.insert("event".to_owned(), event.into());
            }
            self.tell(&json);
        } else {
            self.tell(&format_args!("leasehold: {text}"));
        }
    }

    /// Tells why the program ends.
    pub(crate) fn failure(self, failure: &Failure) {
        if failure.code != exit::NO_READER {
            self.event("error", &failure.text, json!({ "error": failure.text, "exit_code": failure.code }));
        }
    }

    fn tell(self, line: &dyn fmt::Display) {
        // What does not fit is dropped: a command must not wait for a reader of stderr.
        let _ = lines().try_send(Line::Text(line.to_string()));
    }
}

/// Waits for a moment until stderr has taken what was told.
pub(crate) fn flush() {
    let (done, is_done) = sync_channel(1);
    if lines().try_send(Line::Last(done)).is_ok() {
        let _ = is_done.recv_timeout(FLUSH);
    }
}

enum Line {
    Text(String),
    /// All lines before this one are written.
    Last(SyncSender<()>),
}

/// The queue of a thread that alone writes to stderr, and that may be blocked there for ever.
fn lines() -> &'static SyncSender<Line> {
    static LINES: OnceLock<SyncSender<Line>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (sender, lines) = sync_channel(QUEUE);
        thread::spawn(move || {
            lines.into_iter().for_each(|line| match line {
                Line::Text(text) => drop(writeln!(io::stderr().lock(), "{text}")),
                Line::Last(done) => drop(done.try_send(())),
            });
        });
        sender
    })
}

const QUEUE: usize = 256;
const FLUSH: Duration = Duration::from_millis(500);

/// A number with its noun: "1 lock", "2 locks".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The failure when stdout cannot be written. A reader that has gone, as `head` does, is nothing to complain about.
pub(crate) fn unwritable(error: &io::Error) -> Failure {
    let code = if error.kind() == ErrorKind::BrokenPipe { exit::NO_READER } else { exit::OUTPUT };
    Failure::new(code, format!("the output cannot be written: {}", words(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let told = [0, 1, 2].map(|count| counted(count, "lock"));
        assert_eq!(told, ["0 locks", "1 lock", "2 locks"]);
    }
}
