//! Counts background tasks such as releases in flight. The calls thread waits for them before it ends.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The number of background tasks of one engine that have not ended.
#[derive(Debug, Default)]
pub(crate) struct PendingTasks {
    under_way: AtomicUsize,
    none_left: Notify,
}

/// Counts one background task until it is dropped. So the task counts as ended however it ends.
#[derive(Debug)]
pub(crate) struct TaskGuard(Arc<PendingTasks>);

impl PendingTasks {
    pub(crate) fn begin(self: &Arc<Self>) -> TaskGuard {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        TaskGuard(self.clone())
    }

    pub(crate) fn are_done(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Resolves when no background task is left.
    pub(crate) async fn done(&self) {
        loop {
            let none_left = self.none_left.notified();
            if self.are_done() {
                return;
            }
            none_left.await;
        }
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}
