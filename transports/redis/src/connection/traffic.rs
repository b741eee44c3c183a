//! What a link has seen of its server: when the last byte and the last whole reply came, the shortest round trip, and
//! whether a request waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::clock::{Clock, Instant};

/// The traffic of one link. It is shared by the link and by what reads from its socket.
#[derive(Debug)]
pub(crate) struct Traffic {
    clock: Clock,
    received_nanos: AtomicU64,
    whole_nanos: AtomicU64,
    /// The shortest round trip so far. `u64::MAX` before the first reply.
    round_trip_nanos: AtomicU64,
    outstanding: AtomicUsize,
}

impl Traffic {
    /// The traffic of a link that is opened now. It counts as if a reply had just been received.
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let now = clock.now().as_nanos();
        Arc::new(Self {
            clock,
            received_nanos: AtomicU64::new(now),
            whole_nanos: AtomicU64::new(now),
            round_trip_nanos: AtomicU64::new(u64::MAX),
            outstanding: AtomicUsize::new(0),
        })
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Records that bytes have just been received, and whether a reply is whole with them.
    pub(crate) fn handle_received(&self, is_whole: bool) {
        let now = self.now().as_nanos();
        self.received_nanos.store(now, Ordering::Relaxed);
        if is_whole {
            self.whole_nanos.store(now, Ordering::Relaxed);
        }
    }

    /// Returns when the last reply became whole.
    pub(crate) fn last_whole(&self) -> Instant {
        Instant::from_nanos(self.whole_nanos.load(Ordering::Relaxed))
    }

    /// Returns when the last byte was received.
    pub(crate) fn last_received(&self) -> Instant {
        Instant::from_nanos(self.received_nanos.load(Ordering::Relaxed))
    }

    /// Records a reply to a request that was sent at `sent`.
    pub(crate) fn handle_reply(&self, sent: Instant) {
        let took_nanos = u64::try_from((self.now() - sent).as_nanos()).unwrap_or(u64::MAX);
        self.round_trip_nanos.fetch_min(took_nanos, Ordering::Relaxed);
    }

    /// Returns the shortest round trip so far, if there was a reply.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let nanos = self.round_trip_nanos.load(Ordering::Relaxed);
        (nanos != u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// Whether a request waits for its reply.
    pub(crate) fn is_waiting(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) > 0
    }

    /// Counts a request as waiting until the guard is dropped.
    pub(crate) fn one_more(self: &Arc<Self>) -> Outstanding {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Outstanding(self.clone())
    }

    /// The clock of these moments.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }
}

/// Counts a request while it waits, also if its future is dropped.
pub(crate) struct Outstanding(Arc<Traffic>);

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}
