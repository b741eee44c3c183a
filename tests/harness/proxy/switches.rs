//! What is switched for the whole proxy, on all its connections at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// One of the two ways through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies, pushes and messages.
    ToClient,
}

/// One of the two ways: whether it is open, and how long it takes.
#[derive(Debug)]
pub(super) struct Way {
    blocked: watch::Sender<bool>,
    latency_ns: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Switches {
    to_server: Way,
    to_client: Way,
    refusing: AtomicBool,
    cuts: watch::Sender<u64>,
}

impl Way {
    pub(super) fn block(&self, blocked: bool) {
        self.blocked.send_replace(blocked);
    }

    /// Waits until the way is open.
    pub(super) async fn open(&self) {
        // The sender is `self`, so it cannot be gone.
        let _ = self.blocked.subscribe().wait_for(|blocked| !blocked).await;
    }

    pub(super) fn set_latency(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Duration {
        Duration::from_nanos(self.latency_ns.load(Ordering::Relaxed))
    }

    fn new() -> Self {
        Self { blocked: watch::Sender::new(false), latency_ns: AtomicU64::new(0) }
    }
}

impl Switches {
    pub(super) fn new() -> Self {
        Self {
            to_server: Way::new(),
            to_client: Way::new(),
            refusing: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
        }
    }

    pub(super) fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    pub(super) fn refuse(&self, refusing: bool) {
        self.refusing.store(refusing, Ordering::SeqCst);
    }

    pub(super) fn refuses(&self) -> bool {
        self.refusing.load(Ordering::SeqCst)
    }

    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Changes at each cut from now on.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }
}
