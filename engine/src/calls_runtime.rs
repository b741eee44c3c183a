//! The runtime that sends the calls of an engine and handles their answers.

use std::future::Future;

use tokio::{
    runtime::Handle,
    task::{AbortHandle, JoinHandle},
};

/// The runtime of the calls thread, or a runtime of the user in its place.
#[derive(Clone, Debug)]
pub(crate) struct CallsRuntime {
    handle: Handle,
    is_users: bool,
}

impl CallsRuntime {
    /// The runtime of an engine's own thread.
    pub(crate) fn own(handle: Handle) -> Self {
        Self { handle, is_users: false }
    }

    /// A runtime of the user. It may be blocked, or be shut down before the engine ends.
    pub(crate) fn users(handle: Handle) -> Self {
        Self { handle, is_users: true }
    }

    pub(crate) fn is_users(&self) -> bool {
        self.is_users
    }

    /// Runs a task. On a runtime that was shut down, the task is dropped before this returns: hold no lock that its drop
    /// takes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let task: JoinHandle<()> = self.handle.spawn(task);
        task.abort_handle()
    }
}
