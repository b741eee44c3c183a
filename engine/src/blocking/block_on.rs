//! Waits for a future on a thread without a runtime.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake},
    thread::{self, Thread},
};

/// Blocks the thread until the future is done. For every future of this crate, of an engine with threads of its own.
/// The future gets no runtime: futures that need one, such as tokio's timers and sockets, panic.
///
/// # Panics
/// Inside async code, with tokio's message, as the other calls of this module.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::{Engine, blocking};
/// use leasehold_memory::MemoryTransport;
///
/// let engine = blocking::block_on(Engine::builder(MemoryTransport::new()).build())?;
/// let leases = blocking::block_on(engine.acquire_all(["a", "b", "c"]));
/// assert!(leases.iter().all(|outcome| outcome.is_ok()));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    refuse_in_async_code();
    let mut future = pin!(future.into_future());
    let waker = Arc::new(Sleeper(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(), // returns at once if the waker was called meanwhile
        }
    }
}

/// A thread that waits for a future.
struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

// tokio knows whether the thread drives tasks, and tells it with a panic of its blocking calls alone.
#[track_caller]
fn refuse_in_async_code() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let _ = sender.send(());
    let _ = receiver.blocking_recv();
}
