//! What `run` tells: problems always, the rest with `--verbose` or `--json`.

use std::time::Duration;

use leasehold::{LossReason, ReleaseError};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    arguments::Run,
    duration::{millis, shown},
    exit,
    kind::Acquired,
    output::{Output, counted},
    report::Report,
};

/// The events of one run.
pub(crate) struct News<'a> {
    run: &'a Run,
    output: Output,
}

impl<'a> News<'a> {
    pub(crate) fn new(run: &'a Run, output: Output) -> Self {
        Self { run, output }
    }

    pub(crate) fn granted(&self, left: Duration, token: Option<i64>) {
        let text = format!("{:?} is held, renewed until the command ends", self.run.name);
        let fields = json!({ "kind": self.run.kind.as_str(), "token": token, "remaining_ms": millis(left) });
        self.aside("granted", &text, fields);
    }

    /// While the program waits, the server does not answer.
    pub(crate) fn unanswered(&self, error: &str) {
        let text = format!("still waiting for {:?}: {error}", self.run.name);
        self.tell("unanswered", &text, json!({ "error": error }));
    }

    /// The lock was not acquired. `report`: who holds it, or why that is not known.
    pub(crate) fn conflict(&self, report: Result<&Report, &String>, code: u8) {
        let what = match self.run.kind {
            Acquired::Permits => "the permits were not acquired",
            _ => "the lock was not acquired",
        };
        let why = match report {
            Ok(report) if !report.is_free() => report.to_string(),
            Ok(report) => format!("{:?} was held", report.name),
            Err(error) => format!("{:?} was held; who holds it is not known: {error}", self.run.name),
        };
        let text = format!("not run, {what}: {why}");
        let fields =
            json!({ "exit_code": code, "lock": report.ok().map(Report::json), "error": report.err() });
        // A job that another host runs is the usual case, and no problem.
        if self.run.once {
            self.aside("conflict", &text, fields)
        } else {
            self.tell("conflict", &text, fields)
        }
    }

    /// The number of permits was set before, to `total`.
    pub(crate) fn limit(&self, limit: u32, total: u64) {
        if u64::from(limit) != total {
            let text = format!(
                "the semaphore {:?} has {}; --limit {limit} is ignored",
                self.run.name,
                counted(total, "permit")
            );
            self.tell("warning", &text, json!({ "warning": text }));
        }
    }

    pub(crate) fn jeopardy(&self, left: Duration) {
        let text = format!("the server does not confirm the lease, which lasts {} more", shown(left));
        self.tell("jeopardy", &text, json!({ "remaining_ms": millis(left) }));
    }

    pub(crate) fn stopping(&self, loss: Option<LossReason>, grace: Duration) {
        let why = loss.map_or_else(
            || "the lease runs out".to_owned(),
            |reason| format!("the lease is lost ({reason})"),
        );
        let text = format!("{why}: SIGTERM to the command, SIGKILL in {}", shown(grace));
        self.tell(
            "terminating",
            &text,
            json!({ "loss": loss.map(LossReason::as_str), "grace_ms": millis(grace) }),
        );
    }

    pub(crate) fn killing(&self) {
        self.tell("killing", "SIGKILL to the command: the lease is about to end, or has ended", json!({}));
    }

    pub(crate) fn resumed(&self) {
        self.tell("resumed", "a command that holds a lock cannot be suspended: it goes on", json!({}));
    }

    pub(crate) fn keeping(&self, left: Duration) {
        self.aside(
            "keeping",
            &format!("keeping the lock for {} more", shown(left)),
            json!({ "for_ms": millis(left) }),
        );
    }

    /// A signal ended the wait for the lock, so the command was not run. Returns the exit code.
    pub(crate) fn ended_in_wait(&self, signal: Signal) -> u8 {
        let (name, code) = (signal_name(signal), exit::of_signal(signal.as_raw()));
        let text = format!("ended by {name} while it waited for {:?}", self.run.name);
        self.tell("interrupted", &text, json!({ "signal": name, "exit_code": code }));
        code
    }

    /// How the lock was released.
    pub(crate) fn released(&self, released: &Result<(), ReleaseError>, code: u8) {
        match released {
            Ok(()) => self.aside(
                "released",
                &format!("{:?} is released", self.run.name),
                json!({ "exit_code": code }),
            ),
            Err(error) => {
                let event =
                    if matches!(error, ReleaseError::AlreadyLost(_)) { "lost" } else { "unconfirmed" };
                let text = error.to_string();
                self.tell(event, &text, json!({ "error": text, "exit_code": code }));
            }
        }
    }

    fn aside(&self, event: &str, text: &str, fields: Value) {
        if self.run.verbose || self.output.is_json() {
            self.tell(event, text, fields);
        }
    }

    fn tell(&self, event: &str, text: &str, mut fields: Value) {
        if let Value::Object(fields) = &mut fields {
            fields.insert("name".to_owned(), self.run.name.clone().into());
        }
        self.output.event(event, &text, fields);
    }
}

fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::TERM => "SIGTERM",
        Signal::HUP => "SIGHUP",
        _ => "SIGQUIT",
    }
}
