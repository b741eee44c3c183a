//! The running threads of one engine or of several, and when they end.

use std::sync::{Arc, Weak};

use tokio::{runtime::Handle, sync::watch};

use crate::{calls_runtime::CallsRuntime, clock::Clock};

/// The running threads of one or several engines. Each engine holds a value until it has sent what was queued. The
/// threads end when the last value is dropped.
#[derive(Clone)]
pub(crate) struct SharedThreads {
    calls: CallsRuntime,
    renewal: Handle,
    clock: Clock,
    in_use: Arc<watch::Sender<()>>,
}

/// The same, without keeping the threads from ending.
pub(crate) struct ThreadsOfEngine {
    calls: CallsRuntime,
    renewal: Handle,
    clock: Clock,
    in_use: Weak<watch::Sender<()>>,
}

impl SharedThreads {
    pub(crate) fn new(calls: CallsRuntime, renewal: Handle, clock: Clock) -> Self {
        Self { calls, renewal, clock, in_use: Arc::new(watch::Sender::new(())) }
    }

    pub(crate) fn calls(&self) -> CallsRuntime {
        self.calls.clone()
    }

    pub(crate) fn renewal(&self) -> Handle {
        self.renewal.clone()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Resolves once no engine uses the threads any more.
    pub(crate) fn unused(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut in_use = self.in_use.subscribe();
        async move { while in_use.changed().await.is_ok() {} }
    }

    pub(crate) fn downgrade(&self) -> ThreadsOfEngine {
        ThreadsOfEngine {
            calls: self.calls(),
            renewal: self.renewal(),
            clock: self.clock,
            in_use: Arc::downgrade(&self.in_use),
        }
    }
}

impl ThreadsOfEngine {
    /// `None`: the threads have ended, or are about to.
    pub(crate) fn upgrade(&self) -> Option<SharedThreads> {
        let in_use = self.in_use.upgrade()?;
        let (calls, renewal) = (self.calls.clone(), self.renewal.clone());
        Some(SharedThreads { calls, renewal, clock: self.clock, in_use })
    }
}
