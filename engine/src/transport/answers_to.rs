use std::{fmt, sync::Arc};

use super::Call;

/// Where the outcomes of calls that were [begun together](super::Lane::begin_many) go. Each command that carries some of the
/// calls has a clone.
///
/// If the last clone is dropped, the calls without an outcome will have none, as if the transport had panicked. Their callers
/// are then told that the engine has ended.
#[derive(Clone)]
pub struct AnswersTo(Arc<dyn Fn(Vec<Call>) + Send + Sync>);

impl AnswersTo {
    /// Gives the answered calls to this function.
    ///
    /// # Examples
    /// ```
    /// use leasehold::transport::AnswersTo;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let answers_to = AnswersTo::new(move |calls| drop(sender.send(calls.len())));
    /// answers_to.answer(Vec::new());
    /// assert_eq!(receiver.recv(), Ok(0));
    /// ```
    pub fn new(take: impl Fn(Vec<Call>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Gives some of the calls to the engine, each with its outcome. It does not block, and may be called on any thread.
    pub fn answer(&self, calls: Vec<Call>) {
        (self.0)(calls);
    }
}

impl fmt::Debug for AnswersTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswersTo")
    }
}
