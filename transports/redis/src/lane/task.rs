//! A task that ends with its owner.

use tokio::{runtime::Handle, task::JoinHandle};

/// Aborts its task when it is dropped.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::spawn_on(&Handle::current(), work)
    }

    pub(crate) fn spawn_on(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
