//! A checked command connection. It knows which clock its answers come from, how far that clock is ahead of ours, and what
//! may be in flight.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    routing::topology::ClockId,
    transport::{ClockSighting, ServerTime},
};
use tokio::sync::Semaphore;

use super::{
    abilities::{Batches, Kinds},
    check,
    link::{Failure, Link},
    offset::{Offset, Sample},
    watchdog::{PROBE_TIMEOUT, Probe, watch_over},
};
use crate::{config::Address, wire::scripts::Told};

/// One checked connection of one lane.
pub(crate) struct Connection {
    pub(super) link: Arc<Link>,
    pub(super) terms: Terms,
    offset: Mutex<Offset>,
    pub(super) in_flight: Semaphore,
    pub(super) told: Told,
    pub(super) lost_role: AtomicBool,
}

/// What a connection needs to know from its node.
pub(crate) struct Terms {
    pub(crate) address: Address,
    /// The same as text.
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) clock_id: ClockId,
    pub(crate) command_timeout: Duration,
    pub(crate) in_flight_max: usize,
    /// Whether the server is a node of a cluster, which may send requests elsewhere.
    pub(crate) in_cluster: bool,
    pub(crate) kinds: Kinds,
    pub(crate) batches: Batches,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, terms: Terms, first: Sample) -> Self {
        let mut offset = Offset::default();
        offset.observe(first);
        let in_flight = Semaphore::new(terms.in_flight_max);
        Self {
            link,
            terms,
            offset: Mutex::new(offset),
            in_flight,
            told: Told::default(),
            lost_role: AtomicBool::default(),
        }
    }

    /// Waits until this connection has ended or is to be given up.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            _ = self.link.ended() => {}
            _ = watch_over(self, self.clock()) => {}
        }
    }

    pub(crate) fn kill(&self) {
        self.link.kill();
        self.in_flight.close();
    }

    /// Whether the server has said on it that it is no master any more.
    pub(crate) fn has_lost_role(&self) -> bool {
        self.lost_role.load(Ordering::SeqCst)
    }

    pub(crate) fn clock_id(&self) -> ClockId {
        self.terms.clock_id
    }

    pub(crate) fn batches(&self) -> Batches {
        self.terms.batches
    }

    pub(crate) fn address(&self) -> &Address {
        &self.terms.address
    }

    pub(crate) fn publishes_sharded(&self) -> bool {
        self.terms.kinds.sharded
    }

    /// How notices are published: as the scripts spell it.
    pub(crate) fn publishes(&self) -> &'static str {
        self.terms.kinds.spelling()
    }

    /// For questions about the server.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    fn clock(&self) -> Clock {
        self.terms.clock
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock().now()
    }

    pub(crate) fn at(&self, micros: u64) -> ServerTime {
        ServerTime { micros, clock: self.terms.clock_id }
    }

    /// Takes the times of a reply in.
    pub(crate) fn observe(&self, sample: Sample, too_late: bool) {
        self.with_offset(|offset| if too_late { offset.restart(sample) } else { offset.observe(sample) });
    }

    /// How its server's clock stands to ours, if it was read in the last minute.
    pub(crate) fn clock_sighting(&self) -> Option<ClockSighting> {
        let ahead_micros = self.with_offset(|offset| offset.ahead_micros(self.now()))?;
        Some(ClockSighting { node: self.terms.clock_id.node, ahead_micros })
    }

    pub(super) fn with_offset<T>(&self, work: impl FnOnce(&mut Offset) -> T) -> T {
        work(&mut self.offset.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The probe is TIME: it costs what a ping costs, and keeps the estimate of the server's clock fresh.
impl Probe for Connection {
    fn link(&self) -> &Link {
        &self.link
    }

    async fn probe(&self) -> Result<(), Failure> {
        let sample = check::time(&self.link, self.clock(), PROBE_TIMEOUT).await?;
        self.observe(sample, false);
        Ok(())
    }
}
