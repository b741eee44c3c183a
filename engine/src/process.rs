//! The process that built an engine.
//!
//! A child of `fork` has the memory of the engine and none of its threads, and shares its sockets with the parent. So in the child
//! every call ends at once, nothing is sent, and no lock of the engine is taken: at the fork, a thread of the parent may have
//! held it. The C library counts the forks, so a check is one load; to ask for the process id would be a system call, which
//! takes as long as a tenth of a hand-off.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use crate::error::Invalid;

/// A process, as it was before any fork that follows.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    id: u32,
    forks: forkguard::Guard,
}

impl Process {
    /// The process that calls this.
    pub(crate) fn current() -> Self {
        Self { id: std::process::id(), forks: forkguard::new() }
    }

    /// Whether the code runs in a forked child of this process.
    pub(crate) fn is_forked(&self) -> bool {
        self.forks.clone().detected_fork()
    }

    /// Checks that the code runs in this process.
    ///
    /// # Errors
    /// It runs in a forked child.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.is_forked() { Err(self.forked()) } else { Ok(()) }
    }

    /// Polls `work` in this process.
    ///
    /// # Errors
    /// It is polled in a forked child, where nothing would wake it.
    pub(crate) fn here<F: Future + Unpin>(
        &self,
        mut work: F,
    ) -> impl Future<Output = Result<F::Output, Invalid>> + use<'_, F> {
        poll_fn(move |context| match self.check() {
            Ok(()) => Pin::new(&mut work).poll(context).map(Ok),
            Err(forked) => Poll::Ready(Err(forked)),
        })
    }

    #[cold]
    fn forked(&self) -> Invalid {
        let value = format_args!("of process {}", self.id);
        let remedy = format!(
            "belongs to another process: process {} was forked from it; build an engine after the fork",
            std::process::id()
        );
        Invalid::new("engine", value, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_was_not_forked_is_itself() {
        let process = Process::current();
        assert!(!process.is_forked() && process.check().is_ok());
        assert_eq!(process.here(std::future::ready(7)).await, Ok(7));
    }
}
