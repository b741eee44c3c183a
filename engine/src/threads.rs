//! The engine's two threads, each with a current-thread runtime: *calls* (acquire, release, notices, topology) and
//! *renewal*. Several engines of a process may share them. A runtime of the user may replace the calls
//! thread; for paused time it replaces both.
//!
//! No user code runs on these threads: a recorder is called on its own thread, and log lines are written by a thread of
//! the process (`metrics/user.rs`, `log.rs`). A service that panics nevertheless is restarted (`supervisor.rs`).
//!
//! By default the user's runtime owns no part of the engine: blocked application workers delay no call, and a runtime that is
//! shut down ends nothing. It never owns the renewal of leases, except for paused time: blocked workers lose no lease.

use std::{sync::Arc, thread, time::Duration};

use tokio::runtime::{self, Handle};

use crate::{
    calls_runtime::CallsRuntime,
    clock::Clock,
    dispatch::permits,
    error::BuildError,
    guard,
    inner::Inner,
    log,
    metrics::{self, Classes, Recorder, UserRecorder},
    release::reconcile,
    renewal,
    runtime_end::EndsWithRuntime,
    shared_threads::SharedThreads,
    supervisor,
};

/// Runtimes that are created but not running yet.
pub(crate) enum Threads {
    Own {
        calls: OwnRuntime,
        renewal: OwnRuntime,
    },
    /// The calls run on a runtime of the user; renewal has a thread of its own.
    RenewalOnly {
        calls: Handle,
        renewal: OwnRuntime,
    },
    Callers(Handle),
    /// Those of another engine.
    Shared(SharedThreads),
}

impl Threads {
    /// Two runtimes of the engine's own.
    pub(crate) fn own() -> Result<Self, BuildError> {
        Ok(Self::Own { calls: OwnRuntime::new()?, renewal: OwnRuntime::new()? })
    }

    /// The runtime that polls this call, and one of the engine's own for renewal.
    pub(crate) fn renewal_only() -> Result<Self, BuildError> {
        Ok(Self::RenewalOnly { calls: current()?, renewal: OwnRuntime::new()? })
    }

    /// The runtime that polls this call.
    pub(crate) fn callers() -> Result<Self, BuildError> {
        current().map(Self::Callers)
    }

    /// Where the user's recorder is called: on its own thread, or in place on the runtime of a test.
    ///
    /// # Errors
    /// [`BuildError::Threads`] if the operating system could not create the thread.
    pub(crate) fn listen(
        &self,
        recorder: Arc<dyn Recorder>,
        classes: &Arc<Classes>,
    ) -> Result<UserRecorder, BuildError> {
        match self.clock() {
            Clock::Boot => UserRecorder::on_its_thread(recorder, classes.clone())
                .map_err(|error| BuildError::Threads(error.to_string())),
            Clock::Tokio => Ok(UserRecorder::in_place(recorder, classes.clone())),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Own { .. } | Self::RenewalOnly { .. } => Clock::Boot,
            Self::Callers(_) => Clock::Tokio,
            Self::Shared(threads) => threads.clock(),
        }
    }

    pub(crate) fn calls(&self) -> CallsRuntime {
        match self {
            Self::Own { calls, .. } => CallsRuntime::own(calls.handle()),
            Self::RenewalOnly { calls: handle, .. } | Self::Callers(handle) => {
                CallsRuntime::users(handle.clone())
            }
            Self::Shared(threads) => threads.calls(),
        }
    }

    pub(crate) fn renewal(&self) -> Handle {
        match self {
            Self::Own { renewal, .. } | Self::RenewalOnly { renewal, .. } => renewal.handle(),
            Self::Callers(handle) => handle.clone(),
            Self::Shared(threads) => threads.renewal(),
        }
    }

    /// Starts the threads and their services. They end when the engine ends.
    pub(crate) fn start(self, inner: &Arc<Inner>) -> Result<(), BuildError> {
        inner.spawn_until(inner.gone(), reconcile::run(inner.clone()));
        inner.spawn_until(inner.gone(), permits::run(inner.core.clone(), inner.dispatcher.clone()));
        inner.spawn_until(inner.ended(), supervise(inner, "renewal watchdog", renewal::stall_watchdog::run));
        inner.spawn_until(
            inner.ended(),
            supervise(inner, "contended locks", |inner| {
                metrics::name_hot_locks(inner.clock, inner.hot.clone())
            }),
        );
        let renewing = supervise(inner, "renewal", renewal::driver::run);
        let ended = inner.ended();
        let renewing = async move {
            tokio::select! {
                () = renewing => {}
                () = ended => {}
            }
        };
        let draining = drain_and_stop(inner.clone());
        let shared = match &self {
            Self::Shared(threads) => threads.clone(),
            Self::Own { .. } | Self::RenewalOnly { .. } | Self::Callers(_) => {
                SharedThreads::new(self.calls(), self.renewal(), self.clock())
            }
        };
        inner.note_threads(&shared);
        let (renewing, draining) = (with(renewing, shared.clone()), with(draining, shared.clone()));
        let unused = shared.unused();
        match self {
            Self::Own { calls, renewal } => {
                spawn("leasehold-renewal", renewal, then(renewing, unused))?;
                spawn("leasehold-calls", calls, then(draining, shared.unused()))?;
            }
            Self::RenewalOnly { renewal, .. } => {
                spawn("leasehold-renewal", renewal, then(renewing, unused))?;
                shared.calls().spawn(draining);
            }
            Self::Callers(_) | Self::Shared(_) => {
                drop(shared.renewal().spawn(renewing));
                shared.calls().spawn(draining);
            }
        }
        Ok(())
    }
}

fn current() -> Result<Handle, BuildError> {
    let current = Handle::try_current().map_err(|error| BuildError::Threads(error.to_string()))?;
    // A runtime without timers panics here.
    let has_timers = guard::call(|| drop(tokio::time::sleep(Duration::ZERO))).is_some();
    let remedy = "the current runtime has no timers; build it with enable_all()";
    has_timers.then_some(current).ok_or_else(|| BuildError::Threads(remedy.to_owned()))
}

/// Runs the service, and keeps the threads until it is done.
async fn with(service: impl Future<Output = ()>, threads: SharedThreads) {
    service.await;
    drop(threads);
}

async fn then(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    first.await;
    second.await;
}

fn supervise<F, B>(
    inner: &Arc<Inner>,
    name: &'static str,
    begin: B,
) -> impl Future<Output = ()> + Send + use<F, B>
where
    F: Future<Output = ()> + Send,
    B: Fn(Arc<Inner>) -> F + Send + Sync,
{
    let inner = inner.clone();
    async move { supervisor::run(inner.clock, name, || begin(inner.clone())).await }
}

// The calls thread lives until the engine ends. Then it sends what is queued and waits for what is in flight, for at
// most one command timeout: releases, an ask whose caller has gone, owners that are being closed.
fn drain_and_stop(inner: Arc<Inner>) -> impl Future<Output = ()> + Send {
    let ends_with_runtime = EndsWithRuntime::new(&inner); // also if the runtime never polls the future
    async move {
        inner.ended().await;
        let timeout = inner.clock.sleep_until(inner.clock.now() + inner.config.command_timeout());
        tokio::select! {
            () = inner.settled() => {}
            () = timeout => {}
        }
        inner.leave();
        inner.close_lanes();
        ends_with_runtime.done();
    }
}

/// A runtime that may be dropped anywhere. A plain runtime panics when it is dropped where blocking is not allowed, for
/// example in async code.
pub(crate) struct OwnRuntime(Option<runtime::Runtime>);

impl OwnRuntime {
    fn new() -> Result<Self, BuildError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(|error| BuildError::Threads(error.to_string()))
    }

    fn handle(&self) -> Handle {
        self.runtime().handle().clone()
    }

    fn runtime(&self) -> &runtime::Runtime {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn spawn(
    name: &str,
    runtime: OwnRuntime,
    life: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BuildError> {
    let run = move || {
        log::mark_engine_thread();
        runtime.runtime().block_on(life);
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| BuildError::Threads(error.to_string()))
}
