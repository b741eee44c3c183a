//! A process with an engine.

use leasehold::{Engine, Lease};
use leasehold_redis::RedisTransport;
use tokio::runtime::Runtime;

use super::side::{Acquired, Acts, NAME, now};
use crate::runtime::one_worker;

pub(super) struct EngineSide {
    runtime: Runtime,
    engine: Engine,
    lease: Option<Lease>,
}

impl EngineSide {
    pub(super) fn start(url: &str, calls_on_callers: bool) -> Self {
        let runtime = one_worker();
        let builder = Engine::builder(RedisTransport::from_url(url).expect("a good URL"));
        let builder = if calls_on_callers { builder.calls_on_current_runtime() } else { builder };
        let engine = runtime.block_on(builder.build()).expect("the server is up");
        Self { runtime, engine, lease: None }
    }
}

impl Acts for EngineSide {
    fn acquire(&mut self) -> Acquired {
        let (lock, before) = (self.engine.lock(NAME), self.engine.snapshot().asks);
        // In a task, as callers are; the main thread is no worker.
        let call = async move { (lock.acquire().await.expect("in the end"), now()) };
        let (lease, at) = self.runtime.block_on(self.runtime.spawn(call)).expect("no panic");
        self.lease = Some(lease);
        Acquired { at, asks: self.engine.snapshot().asks - before }
    }

    fn release(&mut self) -> u64 {
        let lease = self.lease.take().expect("the lock is held");
        let call = async move { (now(), lease.release().await.expect("it is ours")).0 };
        self.runtime.block_on(self.runtime.spawn(call)).expect("no panic")
    }
}
