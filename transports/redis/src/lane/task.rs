//! A task that ends when its owner is dropped.

use tokio::{runtime::Handle, task::JoinHandle};

/// Aborts its task on drop.
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
