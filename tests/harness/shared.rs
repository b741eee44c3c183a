//! What many tests of one binary share because it takes seconds to start.

use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

/// Started by the first who asks, ended with the process.
#[derive(Debug)]
pub struct Shared<T>(OnceLock<Arc<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Shared<T> {
    /// Not started yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// The one of all.
    ///
    /// # Panics
    /// When it does not start.
    pub fn get(&self, start: impl FnOnce() -> T + Send + 'static) -> Arc<T> {
        self.0.get_or_init(|| on_a_thread_that_stays(start)).clone()
    }
}

// Servers die with the thread that has started them.
fn on_a_thread_that_stays<T: Send + Sync + 'static>(start: impl FnOnce() -> T + Send + 'static) -> Arc<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody to hear it: the test that asked has given up.
        let _ = sender.send(Arc::new(start()));
        loop {
            thread::park();
        }
    });
    receiver.recv().expect("it starts; see above why it did not")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::redis_server::RedisServer;

    #[test]
    fn all_get_the_same_and_it_outlives_the_thread_that_asked_first() {
        static SHARED: Shared<RedisServer> = Shared::new();
        let ask = || SHARED.get(|| RedisServer::start().expect("a server"));
        let first = thread::spawn(ask).join().expect("no panic");
        assert_eq!(first.pid(), ask().pid());
        let mut client = first.client().expect("a connection");
        assert!(client.command(&["SET", "k", "v"]).expect("a reply").is_ok());
    }
}
