//! Deployments that many tests share: forming one takes seconds, and each test uses names of its own.

use std::{
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use leasehold_tests::harness::server_version::ServerVersion;

/// At most one deployment of each version.
pub struct Shared<T>([OnceLock<Arc<T>>; ServerVersion::ALL.len()]);

impl<T: Send + Sync + 'static> Shared<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; ServerVersion::ALL.len()])
    }

    /// The deployment of that version, which the first who asks for it starts.
    pub fn of(&self, version: ServerVersion, begin: fn(ServerVersion) -> T) -> Arc<T> {
        let seat = ServerVersion::ALL.iter().position(|other| *other == version).expect("one of all");
        self.0[seat].get_or_init(|| start(move || begin(version))).clone()
    }
}

/// On a thread of its own that never ends: servers die with the thread that has started them.
fn start<T: Send + Sync + 'static>(begin: impl FnOnce() -> T + Send + 'static) -> Arc<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(Arc::new(begin()));
        loop {
            thread::park();
        }
    });
    receiver.recv().expect("the deployment starts; see above why it did not")
}
