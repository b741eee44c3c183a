//! What the tests of this binary stand on: engines in paused time, what they say and what they send.

mod cluster;
mod detour;
mod far;
mod heard;
mod hostile;
mod traffic;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use leasehold::{
    Engine, EngineBuilder,
    clock::{Clock, Instant},
    transport::Transport,
};
use leasehold_memory::{Faults, Faulty, MemoryTransport};

pub use cluster::{Cluster, Data, PARTS, name_in, part_of_name};
pub use detour::Detour;
pub use far::Far;
pub use heard::Heard;
pub use traffic::{Traffic, TrafficLog, What};

/// The time of the test and of the engines.
pub fn now() -> Instant {
    Clock::Tokio.now()
}

pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Lets virtual time pass.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Lets virtual time pass until `moment`.
pub async fn until(moment: Instant) {
    Clock::Tokio.sleep_until(moment).await;
}

/// Lets everything that is ready run, and no time pass that matters.
pub async fn breathe() {
    pass(millis(1)).await;
}

/// An engine's settings for paused time, among user code that panics, blocks and is slow.
pub fn builder(transport: &(impl Transport + Clone)) -> EngineBuilder {
    hostile::beset(Engine::builder(transport.clone()).on_current_runtime())
}

pub async fn engine(transport: &(impl Transport + Clone)) -> Engine {
    builder(transport).build().await.expect("an engine")
}

/// An engine with the memory behind it, and the handle of its faults.
pub struct Ground {
    pub engine: Engine,
    pub transport: Faulty<MemoryTransport>,
    pub faults: Faults,
    pub heard: Heard,
}

pub async fn ground() -> Ground {
    ground_with(|builder| builder).await
}

pub async fn ground_with(settings: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Ground {
    let (transport, heard) = (Faulty::new(MemoryTransport::new()), Heard::default());
    let builder = settings(builder(&transport).recorder(heard.clone()));
    let engine = builder.build().await.expect("an engine");
    Ground { engine, faults: transport.faults(), transport, heard }
}

impl Ground {
    /// An engine as another process would have it: on the same memory, without faults.
    pub async fn other(&self) -> Engine {
        engine(self.transport.inner()).await
    }

    /// Waits until nothing is held, wanted or closed any more, here and on the server; fails after `within`.
    pub async fn settles_within(&self, within: Duration) {
        settles_within(&self.engine, within).await;
    }
}

/// Waits until the engine holds, wants and closes nothing any more (promise L6); fails after `within`.
pub async fn settles_within(engine: &Engine, within: Duration) {
    let give_up = now() + within;
    loop {
        let seen = engine.snapshot();
        if seen.held + seen.waiting + seen.entries + seen.closing == 0 {
            return;
        }
        assert!(now() < give_up, "not settled within {within:?}: {seen:?}");
        pass(millis(5)).await;
    }
}

/// Polls a future once.
pub async fn poll_once<F: Future>(future: &mut Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// How long a future takes, in virtual time.
pub async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let before = now();
    let done = future.await;
    (done, now() - before)
}
