//! The memory transport in paused time.

use std::{sync::Arc, time::Duration};

use leasehold::{clock::Clock, key::LockKey, transport::Transport};
use leasehold_conformance::{
    FencedCounter, FencedGround, FencedHybrid, Fixture, OfKind, PeerGround, RestartGround, Spin,
};
use leasehold_memory::{MemoryTransport, PeerHold, Restart};

struct Memory(MemoryTransport);

impl Fixture for Memory {
    const CLOCK: Clock = Clock::Tokio;

    async fn fresh() -> Self {
        Memory(MemoryTransport::new())
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.0.clone())
    }
}

impl PeerGround for Memory {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.0.put_peer_hold(key, PeerHold { owner: owner.to_owned(), count, ttl });
    }
}

impl FencedGround for Memory {
    async fn put_token_counter(&self, key: &Arc<LockKey>, counter: Option<u64>) {
        self.0.put_token_counter(key, counter);
    }
}

impl RestartGround for Memory {
    async fn restart(&self) {
        self.0.restart(Restart::DataLost);
    }
}

leasehold_conformance::conformance!(Memory: every, notices, peers, restarts, fair, read_write, read_write_notices, permits, permit_notices, every_counter, semaphore, latch);

mod fenced_counter {
    use super::*;
    leasehold_conformance::conformance!(OfKind<Memory, FencedCounter>: every, notices, peers, restarts, fenced);
}

mod fenced_hybrid {
    use super::*;
    leasehold_conformance::conformance!(OfKind<Memory, FencedHybrid>: every, notices, peers, restarts, fenced);
}

mod spin {
    use super::*;
    leasehold_conformance::conformance!(OfKind<Memory, Spin>: every, peers, spin);
}
