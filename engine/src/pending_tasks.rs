//! Releases that are on their way: the calls thread waits for them before it ends.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// How many errands of one engine are under way.
#[derive(Debug, Default)]
pub(crate) struct PendingTasks {
    under_way: AtomicUsize,
    none_left: Notify,
}

/// One errand. It counts as ended whatever becomes of its task.
#[derive(Debug)]
pub(crate) struct TaskGuard(Arc<PendingTasks>);

impl PendingTasks {
    pub(crate) fn begin(self: &Arc<Self>) -> TaskGuard {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        TaskGuard(self.clone())
    }

    /// Resolves when none is under way.
    pub(crate) async fn done(&self) {
        loop {
            let none_left = self.none_left.notified();
            if self.under_way.load(Ordering::Acquire) == 0 {
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
