//! One of many releases. The bulk limiter decides when each of them is sent.

use std::{fmt, sync::Arc};

use super::{in_progress::ReleaseInProgress, send};
use crate::{
    answers::AnswerSender,
    dispatch::{outbox::Routed, permit::Permit, work::Work},
    error::ReleaseError,
    guard,
    lease::shared::LeaseCore,
    routing::slot::Slot,
    transport::TransportError,
};

/// A lease that has ended, and whose release waits for a permit of its node. Dropping it before it is sent answers its
/// caller that the engine has ended.
pub(crate) struct BulkRelease {
    pub(crate) under_way: ReleaseInProgress,
    pub(crate) lease: Arc<LeaseCore>,
    pub(crate) answer_to: AnswerSender<Result<(), ReleaseError>>,
}

impl Routed for BulkRelease {
    fn slot(&self) -> Slot {
        self.lease.key.slot()
    }
}

impl Work for BulkRelease {
    fn begin(self: Box<Self>, permit: Permit) {
        let Self { under_way, lease, answer_to } = *self;
        let (inner, key) = (under_way.inner.clone(), lease.key.clone());
        let sent = inner.clock.now(); // the lease ended earlier, and then this waited for a permit
        send::send(&inner, under_way, sent, |result| {
            let last_error = match &result {
                Err(ReleaseError::Unknown { last_error, .. }) => last_error.clone().map(Box::new),
                Ok(()) | Err(ReleaseError::AlreadyLost(_) | ReleaseError::ReleasedOrLost) => None,
            };
            drop(permit.after(last_error));
            answer_to.send(result);
        });
        // The ask of the next caller follows the release on the same connection.
        inner.table.with(&key, |slot| slot.poke());
    }

    fn reject(self: Box<Self>) {
        let Self { under_way, answer_to, .. } = *self;
        drop(under_way);
        let _ = guard::call(|| drop(answer_to));
    }

    fn give_up(self: Box<Self>, last_error: TransportError) {
        let Self { under_way, lease, answer_to } = *self;
        let inner = under_way.inner.clone();
        let result = send::give_up(under_way, &lease, last_error);
        inner.table.with(&lease.key, |slot| slot.poke());
        answer_to.send(result);
    }
}

impl fmt::Debug for BulkRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkRelease({:?})", self.lease.key)
    }
}
