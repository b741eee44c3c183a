//! Deployments that many tests share: forming one takes seconds, and each test uses names of its own.

use std::{
    sync::{Arc, mpsc},
    thread,
};

/// Starts something on a thread of its own that never ends: servers die with the thread that has started them.
///
/// # Panics
/// If it cannot be started.
pub fn start<T: Send + Sync + 'static>(begin: impl FnOnce() -> T + Send + 'static) -> Arc<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(Arc::new(begin()));
        loop {
            thread::park();
        }
    });
    receiver.recv().expect("the deployment starts; see above why it did not")
}
