//! A permit to start work at a node.

use crate::transport::TransportError;

/// A permit in use. Dropping it returns it.
pub(crate) struct Permit {
    /// Gets the last error, if the work has no definite answer.
    give_back: Option<GiveBack>,
    node_answers: bool,
    last_error: Option<Box<TransportError>>,
}

type GiveBack = Box<dyn FnOnce(Option<Box<TransportError>>) + Send>;

impl Permit {
    /// `node_answers`: the node has answered something since it was silent.
    pub(super) fn new(
        node_answers: bool,
        give_back: impl FnOnce(Option<Box<TransportError>>) + Send + 'static,
    ) -> Self {
        Self { give_back: Some(Box::new(give_back)), node_answers, last_error: None }
    }

    /// A call of a list has ended. With a definite answer the permit is returned; otherwise the call keeps it.
    pub(crate) fn after(mut self, last_error: Option<Box<TransportError>>) -> Option<Self> {
        self.last_error = last_error;
        Some(self).filter(Self::is_unanswered)
    }

    /// Whether the last send had no definite answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.last_error.is_some()
    }

    /// Whether the permit was granted because the node had answered something since it was silent.
    pub(crate) fn node_answers(&self) -> bool {
        self.node_answers
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            give_back(self.last_error.take());
        }
    }
}
