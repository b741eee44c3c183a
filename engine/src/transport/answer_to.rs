use std::{fmt, time::Duration};

use super::Outcome;
use crate::guard;

/// Where the outcome of a call that was [begun](super::Lane::begin) goes.
///
/// Dropping it without an outcome means that there is none and that none will come, as if the transport had panicked. The
/// callers of the lock are then told that the engine has ended.
pub struct AnswerTo(Option<Box<Take>>);

/// Takes an outcome, and the time for which the call waited in the engine's outbox while its node answered other calls.
type Take = dyn FnOnce(Outcome, Duration) + Send;

impl AnswerTo {
    /// Gives the outcome to this function.
    ///
    /// # Examples
    /// ```
    /// use leasehold::transport::{AnswerTo, Outcome};
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let answer_to = AnswerTo::new(move |outcome| drop(sender.send(outcome)));
    /// answer_to.answer(Outcome::Pending);
    /// assert!(matches!(receiver.recv(), Ok(Outcome::Pending)));
    /// ```
    pub fn new(take: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self::of_queued(move |outcome, _waited| take(outcome))
    }

    /// The same for a call that may wait in the engine's outbox.
    pub(crate) fn of_queued(take: impl FnOnce(Outcome, Duration) + Send + 'static) -> Self {
        Self(Some(Box::new(take)))
    }

    /// Gives the outcome to the engine. It does not block, and may be called on any thread. A panic of the engine's own
    /// function ends here, so that a transport can answer its other calls.
    pub fn answer(self, outcome: Outcome) {
        self.answer_queued(outcome, Duration::ZERO);
    }

    /// The same for a call that has waited in the engine's outbox for this time, while its node answered other calls.
    pub(crate) fn answer_queued(mut self, outcome: Outcome, waited: Duration) {
        if let Some(take) = self.0.take() {
            let _ = guard::call(|| take(outcome, waited));
        }
    }
}

// What is dropped with the function may wake a task of the user, whose waker may panic.
impl Drop for AnswerTo {
    fn drop(&mut self) {
        if let Some(take) = self.0.take() {
            let _ = guard::call(|| drop(take));
        }
    }
}

impl fmt::Debug for AnswerTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerTo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::tests::PanicsInDrop;

    // Two panics in the drop of one list would end the process.
    #[test]
    fn a_drop_without_an_outcome_does_not_panic() {
        let answer_to = || {
            let panics = PanicsInDrop;
            AnswerTo::new(move |_| drop(panics))
        };
        drop(vec![answer_to(), answer_to()]);
        answer_to().answer(Outcome::Pending);
    }
}
