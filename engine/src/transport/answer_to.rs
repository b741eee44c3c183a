use std::fmt;

use super::Outcome;
use crate::guard;

/// Where the outcome of a call that was [begun](super::Lane::begin) goes.
///
/// Dropping it without an outcome means that there is none and that none will come, as if the transport had panicked. The
/// callers of the lock are then told that the engine has ended.
pub struct AnswerTo(Box<dyn FnOnce(Outcome) + Send>);

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
        Self(Box::new(take))
    }

    /// Gives the outcome to the engine. It does not block, and may be called on any thread. A panic of the engine's own
    /// function ends here, so that a transport can answer its other calls.
    pub fn answer(self, outcome: Outcome) {
        let _ = guard::call(|| (self.0)(outcome));
    }
}

impl fmt::Debug for AnswerTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerTo")
    }
}
