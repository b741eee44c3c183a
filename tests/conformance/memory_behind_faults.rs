//! The fault wrapper without a fault changes nothing.

use std::sync::Arc;

use leasehold::{clock::Clock, transport::Transport};
use leasehold_conformance::{Fixture, RestartGround};
use leasehold_memory::{Faulty, MemoryTransport, Restart};

struct Memory(Faulty<MemoryTransport>);

impl Fixture for Memory {
    const CLOCK: Clock = Clock::Tokio;

    async fn fresh() -> Self {
        Memory(Faulty::new(MemoryTransport::new()))
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.0.clone())
    }
}

impl RestartGround for Memory {
    async fn restart(&self) {
        self.0.inner().restart(Restart::DataKept);
    }
}

leasehold_conformance::conformance!(Memory: every, notices, restarts, fair, read_write, read_write_notices, permits, permit_notices, every_counter, semaphore, latch);
