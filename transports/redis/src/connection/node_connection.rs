//! A checked command connection. It knows the clock of its server, the offset between that clock and ours, and its
//! limit of requests in flight.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{
    clock::{Clock, Instant},
    routing::topology::ClockId,
    transport::{ClockReading, ServerTime},
};
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    batching::{BatchLimit, Batches, Inquiry},
    command_link::CommandLink,
    features::{Kinds, Support, may_span_slots},
    handshake,
    link::{Failure, Kill, Link},
    offset::{Offset, Sample},
    one_server::{Checks, OneServer},
    traffic::Traffic,
    watchdog::{Probe, watch_over},
};
use crate::{config::Address, wire::scripts};

/// One checked connection of one lane.
pub(crate) struct Connection {
    pub(super) link: Arc<CommandLink>,
    /// The runtime of the lane. A reply may be handled on another.
    pub(super) runtime: Handle,
    pub(super) terms: Terms,
    offset: Mutex<Offset>,
    pub(super) in_flight: Semaphore,
    pub(super) sent_scripts: scripts::SentScripts,
    pub(super) lost_role: AtomicBool,
    /// Set when the server has said that its cluster is down.
    pub(super) cluster_down: AtomicBool,
    /// Set when the server has confirmed scripts across slots after the handshake.
    spans_slots: AtomicBool,
    one_server: Mutex<OneServer>,
    group_checks: Mutex<Checks>,
    /// Set when the server has said that it cannot acquire many locks at once.
    pub(super) acquires_alone: AtomicBool,
    /// Set when a command for many locks was refused because it was one for many.
    pub(super) refuses_groups: AtomicBool,
}

/// What a connection needs to know from its node.
pub(crate) struct Terms {
    pub(crate) address: Address,
    /// The address as text.
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) clock_id: ClockId,
    pub(crate) command_timeout: Duration,
    pub(crate) in_flight_max: usize,
    /// How long a place in the line of a fair lock counts for peers.
    pub(crate) fair_wait: Duration,
    /// Whether the server is a node of a cluster, which may redirect requests.
    pub(crate) in_cluster: bool,
    pub(crate) kinds: Kinds,
    /// The form that the server's version and the configuration allow.
    pub(crate) batches: Batches,
    /// What the server's replies have shown about batches.
    pub(crate) batch_limit: Arc<BatchLimit>,
    /// Whether and when to ask again about scripts across slots.
    pub(crate) inquiry: Inquiry,
}

impl Connection {
    /// On the current runtime.
    pub(crate) fn new(link: Arc<CommandLink>, terms: Terms, first: Sample, run_id: Option<&str>) -> Self {
        let mut offset = Offset::default();
        offset.observe(first);
        let in_flight = Semaphore::new(terms.in_flight_max);
        Self {
            link,
            runtime: Handle::current(),
            terms,
            offset: Mutex::new(offset),
            in_flight,
            sent_scripts: scripts::SentScripts::default(),
            spans_slots: AtomicBool::default(),
            one_server: Mutex::new(OneServer::of_run(run_id)),
            group_checks: Mutex::default(),
            acquires_alone: AtomicBool::default(),
            refuses_groups: AtomicBool::default(),
            lost_role: AtomicBool::default(),
            cluster_down: AtomicBool::default(),
        }
    }

    /// Waits until this connection has ended, or its watchdog gives it up.
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

    /// Whether the server has reported on this connection that it is not a master any more.
    pub(crate) fn has_lost_role(&self) -> bool {
        self.lost_role.load(Ordering::SeqCst)
    }

    /// Whether the connection has ended because the cluster is down.
    pub(crate) fn has_met_cluster_down(&self) -> bool {
        self.cluster_down.load(Ordering::SeqCst)
    }

    pub(crate) fn clock_id(&self) -> ClockId {
        self.terms.clock_id
    }

    /// Returns how renewals are currently sent to the server.
    pub(crate) fn batches(&self) -> Batches {
        let spans_slots = self.spans_slots.load(Ordering::SeqCst);
        let batches = if spans_slots { Batches::AcrossSlots } else { self.terms.batches };
        self.terms.batch_limit.apply(batches, self.now())
    }

    /// Asks the server again whether scripts may span slots, if it has not answered yet and the time has come.
    pub(crate) async fn inquire(&self) {
        if !self.terms.inquiry.is_due(self.now()) {
            return;
        }
        match may_span_slots(&*self.link, self.terms.command_timeout).await {
            Ok(Support::Unknown) | Err(_) => {}
            Ok(support) => {
                self.spans_slots.store(support == Support::Yes, Ordering::SeqCst);
                self.terms.inquiry.close();
            }
        }
    }

    /// Whether replies have shown that the server needs smaller batches.
    pub(crate) fn is_limited(&self) -> bool {
        self.terms.batch_limit.is_in_force(self.now())
    }

    /// Records that a batch in this form was answered wrongly or refused, while its members alone were not.
    pub(crate) fn refute(&self, form: Batches) {
        let Some(instead) = self.terms.batch_limit.refute(form, self.now()) else { return };
        tracing::warn!(
            server = %self.terms.name,
            ?instead,
            "renewals go to redis in smaller batches: a batch was answered wrongly or refused, and its members alone were \
             not. A proxy that sends a script to the server of its first key does that; set `batching` to \"by_slot\""
        );
    }

    pub(crate) fn address(&self) -> &Address {
        &self.terms.address
    }

    pub(crate) fn publishes_sharded(&self) -> bool {
        self.terms.kinds.sharded
    }

    /// Returns how notices are published, as named in the scripts.
    pub(crate) fn publishes(&self) -> &'static str {
        self.terms.kinds.spelling()
    }

    /// The link, for questions about the server.
    pub(crate) fn link(&self) -> &CommandLink {
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

    /// Takes in the times of a reply.
    pub(crate) fn observe(&self, sample: Sample, too_late: bool) {
        self.with_offset(|offset| if too_late { offset.restart(sample) } else { offset.observe(sample) });
    }

    /// Returns the offset of the server's clock to ours, if the clock was read in the last minute.
    pub(crate) fn clock_reading(&self) -> Option<ClockReading> {
        let ahead_micros = self.with_offset(|offset| offset.ahead_micros(self.now()))?;
        Some(ClockReading::new(self.terms.clock_id.node, ahead_micros))
    }

    pub(super) fn one_server(&self) -> MutexGuard<'_, OneServer> {
        self.one_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts locks that go together. Returns whether to check some of them; see [`Checks`].
    pub(super) fn must_check_group(&self, locks: usize) -> bool {
        let mut checks = self.group_checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.is_due(locks, self.now())
    }

    /// Ends groups and batches on every connection to this server for ten minutes.
    pub(super) fn end_batches(&self) {
        self.terms.batch_limit.refute(self.terms.batches, self.now());
    }

    pub(super) fn with_offset<T>(&self, work: impl FnOnce(&mut Offset) -> T) -> T {
        work(&mut self.offset.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The probe is `TIME`: it costs as much as a `PING`, and keeps the estimate of the server's clock fresh.
impl Probe for Connection {
    fn traffic(&self) -> &Traffic {
        self.link.traffic()
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
        let sample = handshake::time(&*self.link, self.clock(), timeout).await?;
        self.observe(sample, false);
        Ok(())
    }
}
