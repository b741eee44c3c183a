//! When the run ends: its time is up, somebody wants it to end, or it cannot go on.

use std::{fmt, process, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Why the run ended.
#[derive(Clone)]
pub(crate) enum Reason {
    TimeUp,
    Interrupted(&'static str),
    /// It would fail again and again.
    Failed(String),
}

pub(crate) struct Stop {
    reason: watch::Sender<Option<Reason>>,
}

impl Stop {
    /// Ends after `time`, at Ctrl-C or at SIGTERM, whatever comes first.
    pub(crate) fn after(time: Duration) -> Self {
        let reason = watch::Sender::new(None);
        tokio::spawn({
            let reason = reason.clone();
            async move {
                tokio::time::sleep(time).await;
                end(&reason, Reason::TimeUp);
            }
        });
        listen(&reason, SignalKind::interrupt(), "Ctrl-C");
        listen(&reason, SignalKind::terminate(), "SIGTERM");
        Self { reason }
    }

    /// Ends now.
    pub(crate) fn fail(&self, why: String) {
        end(&self.reason, Reason::Failed(why));
    }

    /// Resolves when the run is to end.
    pub(crate) async fn reason(&self) -> Reason {
        let mut reason = self.reason.subscribe();
        match reason.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(Reason::TimeUp),
            Err(_) => Reason::TimeUp, // cannot be: the sender lives in `self`
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.reason.borrow().is_some()
    }
}

fn end(sender: &watch::Sender<Option<Reason>>, reason: Reason) {
    sender.send_if_modified(|now| {
        let first = now.is_none();
        now.get_or_insert(reason);
        first
    });
}

fn listen(reason: &watch::Sender<Option<Reason>>, kind: SignalKind, name: &'static str) {
    let Ok(mut signals) = signal(kind) else { return };
    let reason = reason.clone();
    tokio::spawn(async move {
        signals.recv().await;
        end(&reason, Reason::Interrupted(name));
        signals.recv().await;
        eprintln!("fleet: {name} again: leaving at once; what is not released yet ends with its ttl");
        process::exit(INTERRUPTED);
    });
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeUp => f.write_str("time is up"),
            Self::Interrupted(name) => f.write_str(name),
            Self::Failed(_) => f.write_str("cannot go on"),
        }
    }
}

/// What shells show for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
