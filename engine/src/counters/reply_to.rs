//! The answer to a caller of a counter. Permits in an answer that no caller takes go back.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::entry::work::{Leaving, Outcome, Work};
use crate::{guard, key::LockKey};

/// Takes one answer. Dropping it without an answer means to its caller that the engine has ended.
pub(crate) type ReplyTo = oneshot::Sender<Answer>;

/// What an answer needs from its engine.
pub(crate) trait TakesBack: Send + Sync {
    /// Nobody has taken these permits, so the engine gives them back.
    fn take_back(self: Arc<Self>, key: &Arc<LockKey>, permits: u64);
}

/// What a caller is told.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    permits: Option<Permits>,
}

/// Permits on their way to a caller. Dropping them gives them back.
struct Permits {
    engine: Arc<dyn TakesBack>,
    key: Arc<LockKey>,
    number: u64,
}

impl Answer {
    /// The caller takes the answer, and the permits with it.
    pub(crate) fn accept(self) -> Outcome {
        if let Some(mut permits) = self.permits {
            permits.number = 0;
        }
        self.outcome
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if self.number > 0 {
            self.engine.clone().take_back(&self.key, self.number);
        }
    }
}

/// Answers a caller. Its waker is user code.
pub(crate) fn answer(engine: Arc<dyn TakesBack>, key: &Arc<LockKey>, leaving: Leaving<ReplyTo>) {
    let Leaving { work, outcome, reply_to } = leaving;
    let number = taken(work, &outcome);
    let permits = (number > 0).then(|| Permits { engine, key: key.clone(), number });
    let _ = guard::call(|| drop(reply_to.send(Answer { outcome, permits })));
}

fn taken(work: Work, outcome: &Outcome) -> u64 {
    match (work, outcome) {
        (Work::Take(permits), Outcome::Done { .. }) => permits.get().into(),
        (Work::Drain, Outcome::Done { result, .. }) => u64::try_from(*result).unwrap_or(0),
        _ => 0,
    }
}
