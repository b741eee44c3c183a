//! Work that waits for a permit of its node.

use std::fmt;

use super::{outbox::Routed, permit::Permit};
use crate::{routing::slot::Slot, transport::TransportError};

/// Work that waits for a permit of its node.
pub(crate) trait Work: Routed + fmt::Debug + Send {
    /// Starts. The permit is in use until it is dropped.
    fn begin(self: Box<Self>, permit: Permit);

    /// The engine has ended: answers the caller of this work so.
    fn reject(self: Box<Self>);

    /// Whether this is an acquire. Acquires of lists are rejected once the engine shuts down.
    fn is_acquire(&self) -> bool {
        false
    }

    /// The node has not answered for too long: answers the caller of this work so. Only calls of lists are given up.
    fn give_up(self: Box<Self>, last_error: TransportError) {
        drop(last_error);
        self.reject();
    }
}

impl Routed for Box<dyn Work> {
    fn slot(&self) -> Slot {
        (**self).slot()
    }
}
