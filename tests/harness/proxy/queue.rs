//! What waits inside a connection for its time to be written.

use std::sync::Arc;
use std::sync::mpsc as answers;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::rulebook::RuleRecord;
use super::switches::Way;

/// A request on its way to the server.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// `None`: as soon as it is first in the queue.
    pub(super) due: Option<Instant>,
    pub(super) request: Request,
    pub(super) tag: Tag,
    pub(super) cuts_client: bool,
}

/// A frame on its way to the client.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) due: Instant,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) arguments: Vec<Vec<u8>>,
}

/// What a request leaves behind for its reply.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    pub(super) answer: Answer,
    /// The rule that counts as fired once the reply is here.
    pub(super) rule: Option<Arc<RuleRecord>>,
}

/// What happens to a reply.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Pass,
    Swallow,
    Delay(Duration),
    Twice,
    /// To the test that delivered the request, not to the client.
    Report(answers::Sender<Vec<u8>>),
}

impl Tag {
    pub(super) fn of_nobody(answer: Answer) -> Self {
        Self { answer, rule: None }
    }

    pub(super) fn of(rule: Arc<RuleRecord>, answer: Answer) -> Self {
        Self { answer, rule: Some(rule) }
    }
}

/// When the next thing of one way is due: never before the one ahead of it, whatever the latency is switched to.
#[derive(Debug)]
pub(super) struct Pace {
    last: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { last: Instant::now() }
    }

    pub(super) fn due(&mut self, way: &Way) -> Instant {
        self.last = later(Instant::now(), way.latency()).max(self.last);
        self.last
    }

    /// Holds up what comes next, and so all behind it.
    pub(super) fn hold_up(&mut self, way: &Way, by: Duration) {
        self.last = later(self.due(way), by);
    }
}

/// Waits until it is due and the way is open.
pub(super) async fn until_passable(due: Option<Instant>, way: &Way) {
    // Timers count in whole milliseconds and round up: what is due already must not meet one.
    if let Some(due) = due.filter(|due| *due > Instant::now()) {
        sleep_until(due).await;
    }
    way.open().await;
}

/// A test may well say `Duration::MAX` for "never".
fn later(from: Instant, by: Duration) -> Instant {
    from + by.min(NEVER)
}

const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
