//! Gets the reply to one request, or learns why there is none.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fred::types::Resp3Frame as Frame;
use tokio::sync::oneshot;

use crate::connection::link::Failure;

/// Where a reply goes.
pub(super) enum ReplyTo {
    /// A task that waits. It has a timer of its own, and learns by the drop that the connection has ended.
    Task(oneshot::Sender<Frame>),
    /// A function that is called where the reply arrives.
    Call(Called),
}

/// A function that gets a reply.
pub(super) type Called = Box<dyn FnOnce(Result<Frame, Failure>) + Send>;

impl ReplyTo {
    pub(super) fn answer(self, frame: Frame) {
        match self {
            // The task's time may be over. Its waker may panic.
            Self::Task(sender) => guarded(|| drop(sender.send(frame))),
            Self::Call(called) => call(called, Ok(frame)),
        }
    }

    pub(super) fn fail(self, failure: Failure) {
        match self {
            Self::Task(sender) => drop(sender),
            Self::Call(called) => call(called, Err(failure)),
        }
    }
}

fn call(called: Called, reply: Result<Frame, Failure>) {
    guarded(|| called(reply));
}

// A panic must not end the connection: other requests wait for their replies.
fn guarded(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
