//! The runtime of contestants that are measured in one process.

use tokio::runtime::{Builder, Runtime};

/// A runtime with one worker, so that the server and the threads of the engines have the other processor.
pub(crate) fn one_worker() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}
