//! The engine's two threads, each a current-thread runtime: *calls* (acquire, release, notices, topology) and
//! *renewal*. Or, for paused time, the caller's runtime for both.
//!
//! The user's runtime owns nothing of ours: blocked application workers lose no lease, and a runtime that is shut
//! down leaks nothing.

use std::{io, sync::Arc, thread};

use tokio::runtime::{self, Handle, Runtime};

use crate::{clock::Clock, contention::closer, error::BuildError, renewal, works::Works};

/// Runtimes that are made but not running yet.
pub(crate) enum Threads {
    Own { calls: Runtime, renewal: Runtime },
    Callers(Handle),
}

impl Threads {
    /// Two runtimes of the engine's own.
    pub(crate) fn own() -> Result<Self, BuildError> {
        let refused = |error: io::Error| BuildError::Threads(error.to_string());
        Ok(Self::Own { calls: runtime().map_err(refused)?, renewal: runtime().map_err(refused)? })
    }

    /// The runtime that is polling us.
    pub(crate) fn callers() -> Result<Self, BuildError> {
        Handle::try_current().map(Self::Callers).map_err(|error| BuildError::Threads(error.to_string()))
    }

    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Own { .. } => Clock::Boot,
            Self::Callers(_) => Clock::Tokio,
        }
    }

    pub(crate) fn calls(&self) -> Handle {
        match self {
            Self::Own { calls, .. } => calls.handle().clone(),
            Self::Callers(handle) => handle.clone(),
        }
    }

    pub(crate) fn renewal(&self) -> Handle {
        match self {
            Self::Own { renewal, .. } => renewal.handle().clone(),
            Self::Callers(handle) => handle.clone(),
        }
    }

    /// Sets them going. They end when the engine does.
    pub(crate) fn start(self, works: &Arc<Works>) -> Result<(), BuildError> {
        works.spawn_service(closer::run(works.clone()));
        works.spawn_service(renewal::belt::run(works.clone()));
        let (renewing, ended) = (renewal::driver::run(works.clone()), works.ended());
        let renewing = async move {
            tokio::select! {
                () = renewing => {}
                () = ended => {}
            }
        };
        match self {
            Self::Own { calls, renewal } => {
                spawn("leasehold-renewal", renewal, renewing)?;
                spawn("leasehold-calls", calls, last_errands(works.clone()))
            }
            Self::Callers(handle) => {
                drop(handle.spawn(renewing));
                drop(handle.spawn(last_errands(works.clone())));
                Ok(())
            }
        }
    }
}

// The calls thread lives until the engine ends, then sends what is queued, for at most one command timeout.
async fn last_errands(works: Arc<Works>) {
    works.ended().await;
    let timeout = works.clock.sleep_until(works.clock.now() + works.config.command_timeout());
    tokio::select! {
        () = works.errands.done() => {}
        () = timeout => {}
    }
    works.calls.close();
    works.renewals.close();
}

fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

fn spawn(
    name: &str,
    runtime: Runtime,
    life: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BuildError> {
    let run = move || {
        runtime.block_on(life);
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| BuildError::Threads(error.to_string()))
}
