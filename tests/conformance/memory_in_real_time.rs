//! The memory transport on the boot clock: that the suite holds where time is real, before a server is needed.

use std::sync::Arc;

use leasehold::{clock::Clock, transport::Transport};
use leasehold_conformance::Fixture;
use leasehold_memory::MemoryTransport;

struct Memory(MemoryTransport);

impl Fixture for Memory {
    const CLOCK: Clock = Clock::Boot;

    async fn fresh() -> Self {
        Memory(MemoryTransport::new())
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.0.clone())
    }
}

leasehold_conformance::conformance!(Memory: every, notices, fair, read_write, read_write_notices, permits, permit_notices, every_counter, semaphore, latch);
