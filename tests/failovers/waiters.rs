//! Callers of one engine that wait for locks which the other holds, through everything.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::Engine;
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{
    log::{Log, hold},
    moment::Moment,
};

/// One waiting caller.
pub(crate) struct Waiter {
    pub(crate) key: String,
    granted: Arc<Mutex<Option<Moment>>>,
    task: JoinHandle<()>,
}

impl Waiter {
    pub(crate) fn start(runtime: &Runtime, engine: &Engine, key: String, log: &Arc<Log>) -> Self {
        let granted = Arc::<Mutex<Option<Moment>>>::default();
        let acquire = engine.lock(&key).class("waiting").acquire();
        let task = runtime.spawn({
            let (granted, log) = (granted.clone(), log.clone());
            async move {
                let lease = acquire.await.expect("a lease");
                *granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now());
                hold(&log, WAITERS_ENGINE, lease, WORK).await;
            }
        });
        Self { key, granted, task }
    }

    /// When it got the lock.
    pub(crate) fn granted(&self) -> Option<Moment> {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(self, runtime: &Runtime) {
        runtime.block_on(self.task).expect("no panic");
    }
}

/// The engine that waits.
pub(crate) const WAITERS_ENGINE: usize = 1;
const WORK: Duration = Duration::from_millis(50);
