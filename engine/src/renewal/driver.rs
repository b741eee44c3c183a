//! The renewal driver. In each tick it reads the clock, empties the inboxes, advances the scheduler and sends its
//! batches; it applies answers as they arrive. One task on the renewal thread, with its own lane.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::Level;

use super::{
    batch::Batch,
    batch_outcomes::BatchOutcomes,
    in_flight::BatchesInFlight,
    inbox::Order,
    log_limiter::LogLimiter,
    scheduler::{Event, Scheduler, TICK},
    ttl_check::TtlExpectation,
};
use crate::{
    clock::Instant,
    inner::Inner,
    lease::shared::LeaseCore,
    log,
    metrics::{EngineEvent, EngineThread, LockEvent, Operation},
    release::{downgrade, loss},
    routing::{
        moves::{Move, Moves},
        topology::{ClockId, NodeId, Topology},
    },
    transport::{Call, TransportError},
};

/// A batch that the transport has returned.
struct BatchReply {
    batch: Batch,
    sent: Instant,
}

/// A batch in flight. The guard sends a `BatchReply` even if the transport panics. That reply has no answers, and the
/// batch's leases then end at their deadlines.
struct BatchGuard {
    landing: mpsc::UnboundedSender<BatchReply>,
    replied: Option<BatchReply>,
}

impl BatchReply {
    fn empty(node: NodeId, sent: Instant) -> Self {
        Self { batch: Batch { node, members: Vec::new() }, sent }
    }
}

impl BatchGuard {
    fn land(&mut self, members: Vec<Call>) {
        if let Some(replied) = &mut self.replied {
            replied.batch.members = members;
        }
    }
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        let _ = self.replied.take().map(|replied| self.landing.send(replied));
    }
}

/// The state of the renewal driver.
struct Driver {
    inner: Arc<Inner>,
    scheduler: Scheduler,
    orders: Vec<Order>,
    in_flight: BatchesInFlight,
    landing: mpsc::UnboundedSender<BatchReply>,
    known: Arc<Topology>,
    /// Server clocks that were seen to step. The leases of each were made due at once, a single time.
    stepped: HashSet<ClockId>,
    /// Kept between batches to reuse the allocated memory.
    counts: BatchOutcomes,
    log_limiter: LogLimiter,
    /// Events of leases that the driver has not reported yet.
    unreported: VecDeque<Event>,
}

/// Runs until the engine ends. A driver that is restarted after a panic takes over the leases of the driver before it.
pub(crate) async fn run(inner: Arc<Inner>) {
    let (landing, mut replied) = mpsc::unbounded_channel();
    let mut driver = Driver::new(inner.clone(), landing);
    driver.adopt();
    loop {
        driver.tick();
        let next_tick = next_boundary(inner.clock.now());
        while inner.clock.now() < next_tick {
            tokio::select! {
                () = inner.clock.sleep_until(next_tick) => {}
                Some(back) = replied.recv() => driver.handle_reply(back),
                () = inner.inboxes.urgent() => driver.handle_urgent(),
                () = tokio::task::yield_now(), if driver.is_behind() => driver.report_rest(),
            }
        }
        let (thread, late) = (EngineThread::Renewal, inner.clock.now() - next_tick);
        inner.events.record_engine(EngineEvent::TimerLate { thread, late });
    }
}

/// The lease that is being registered, if a server that is no longer the present one granted it.
fn doubtful(order: &Order, known: &Topology) -> Option<Arc<LeaseCore>> {
    match order {
        Order::Register(lease, _) if !known.is_current(lease.granted_by) => Some(lease.clone()),
        Order::Register(..) | Order::Taken(_) | Order::Cancel(_) | Order::Downgrade(_) | Order::Renew(..) => {
            None
        }
    }
}

// Ticks fall on the wheel's own tick boundaries, so that no lease waits for a second tick.
fn next_boundary(now: Instant) -> Instant {
    let tick = TICK.as_nanos() as u64;
    Instant::from_nanos((now.as_nanos() / tick + 1) * tick)
}

impl Driver {
    fn new(inner: Arc<Inner>, landing: mpsc::UnboundedSender<BatchReply>) -> Self {
        let scheduler = Scheduler::new(inner.clock.now(), inner.config.command_timeout());
        let in_flight = BatchesInFlight::new(inner.config.batches_in_flight_max);
        Self {
            inner,
            scheduler,
            orders: Vec::new(),
            in_flight,
            landing,
            known: Arc::default(),
            stepped: HashSet::new(),
            counts: BatchOutcomes::default(),
            log_limiter: LogLimiter::default(),
            unreported: VecDeque::new(),
        }
    }

    // Every live lease is in the table. The records of a former driver are gone. So each lease is registered again, as
    // if its last confirmed command had been sent at the time that its deadline implies and answered just now.
    //
    // A lease that is lost and still in the table is a lease whose loss the former driver had not handled yet. A downgrade
    // that is confirmed may not be told yet.
    fn adopt(&mut self) {
        let now = self.inner.clock.now();
        let mut leases = Vec::new();
        self.inner.table.for_each_lease(|lease| leases.push(lease.clone()));
        for lease in leases {
            match lease.loss() {
                Some(reason) => loss::handle_loss(&self.inner, &lease, reason),
                None => {
                    if lease.is_downgrade_confirmed() {
                        downgrade::handle_confirmed(&self.inner, &lease);
                    }
                    self.register_again(lease, now);
                }
            }
        }
    }

    fn register_again(&self, lease: Arc<LeaseCore>, now: Instant) {
        if lease.is_live() {
            let baseline = TtlExpectation::adopted(&lease, now);
            self.inner.inboxes.push(lease.key.slot(), Order::Register(lease, baseline));
        }
    }

    fn tick(&mut self) {
        let now = self.inner.clock.now();
        self.drain_inboxes(now);
        self.scheduler.advance(now);
        self.dispatch(now);
        self.report_events();
        self.inner.count_tick(); // last: the tick counter of a driver that never gets here stands still
    }

    fn handle_urgent(&mut self) {
        let now = self.inner.clock.now();
        self.drain_inboxes(now);
        self.dispatch(now);
    }

    // Handles the topology first. A lease is in doubt if its grant came from a server that is not the *present* server.
    // Without a known topology every lease of the first moments would be in doubt.
    fn drain_inboxes(&mut self, now: Instant) {
        self.handle_topology();
        for number in 0..self.inner.inboxes.len() {
            self.inner.inboxes.take(number, &mut self.orders);
            for order in self.orders.drain(..) {
                let doubtful = doubtful(&order, &self.known);
                self.scheduler.handle_order(order, now, &self.known);
                doubtful.iter().for_each(|lease| self.scheduler.doubt(lease));
            }
        }
    }

    // From now on another server, or another run of a server, answers for a slot. The engine does not know yet what
    // that server knows about our leases, so each lease of the slot is renewed at once. The slot tables are compared
    // once. The leases are visited once, and only if a slot has moved.
    fn handle_topology(&mut self) {
        let Some(topology) = self.inner.renewals.topology() else { return };
        if Arc::ptr_eq(&topology, &self.known) {
            return;
        }
        let earlier = std::mem::replace(&mut self.known, topology.clone());
        self.record_nodes(&earlier, &topology);
        self.stepped.retain(|clock| topology.is_current(*clock));
        self.scheduler.handle_moves(&Moves::between(&earlier, &topology));
    }

    // A node that has left the topology counts as disconnected, whatever its state was. The driver reports that once.
    fn record_nodes(&self, earlier: &Topology, topology: &Topology) {
        let record = |event| self.inner.events.record_engine(event);
        for node in topology.nodes() {
            if earlier.node(node.id).is_none_or(|before| before.connected != node.connected) {
                record(EngineEvent::NodeChanged { address: &node.address, connected: node.connected });
            }
            if node.connected && earlier.node(node.id).is_some_and(|before| !before.connected) {
                record(EngineEvent::Reconnected { address: &node.address });
            }
        }
        let left = earlier.nodes().iter().filter(|node| node.connected && topology.node(node.id).is_none());
        left.for_each(|node| {
            record(EngineEvent::NodeChanged { address: &node.address, connected: false });
        });
    }

    // The server's clock stepped. Each lease of that server is renewed at once; no lease is in doubt because of a step.
    fn expedite(&mut self, clock: ClockId) {
        let topology = self.known.clone();
        let serves = |slot| topology.serving(slot).is_some_and(|node| node.id == clock.node);
        self.scheduler.expedite(|slot| serves(slot).then_some(Move::WithItsLocks));
    }

    fn dispatch(&mut self, now: Instant) {
        let (topology, mut counts) = (self.known.clone(), std::mem::take(&mut self.counts));
        let free = |node| self.in_flight.free(node);
        let batches = self.scheduler.take_batches(now, &topology, free, &mut counts);
        batches.into_iter().for_each(|batch| self.send(batch, now));
        for late in self.scheduler.take_lateness() {
            self.inner.events.record_engine(EngineEvent::RenewalLate { late });
        }
        self.report_outcomes(counts, now);
    }

    fn send(&mut self, batch: Batch, sent: Instant) {
        self.in_flight.start(batch.node);
        let (lane, landing) = (self.inner.renewals.lane(), self.landing.clone());
        // No parent span: the callers that acquired these leases may have finished long ago.
        let (node, leases) = (batch.node.0, batch.members.len());
        let span = log::BackgroundSpan::open(
            Level::TRACE,
            move || tracing::trace_span!(parent: None, "lock.renew", node, leases),
        );
        let flight = async move {
            let _span = span;
            let Batch { node, members } = batch;
            let mut flight = BatchGuard { landing, replied: Some(BatchReply::empty(node, sent)) };
            let members = match lane {
                Some(lane) => lane.call(node, members).await,
                None => members,
            };
            flight.land(members);
        };
        tokio::spawn(flight);
    }

    fn handle_reply(&mut self, replied: BatchReply) {
        let BatchReply { batch, sent } = replied;
        let (now, members) = (self.inner.clock.now(), batch.members.len());
        self.in_flight.end(batch.node);
        self.handle_topology(); // answers are checked against the present servers
        let (topology, mut counts) = (self.known.clone(), std::mem::take(&mut self.counts));
        self.scheduler.handle_answers(&batch.members, sent, now, &topology, &mut counts);
        self.record_batch(members, now - sent, &counts);
        self.report_outcomes(counts, now);
        self.report_events();
        self.dispatch(now);
    }

    fn record_batch(&self, members: usize, took: Duration, counts: &BatchOutcomes) {
        let (events, answered) = (&self.inner.events, counts.answered() > 0);
        events.record_engine(EngineEvent::RenewalBatch { members, took, answered });
        let (operation, last_error) = (Operation::Renew, counts.last_error.as_ref());
        events.record_engine(EngineEvent::Answered { operation, took, last_error });
    }

    // Counts also the renewals that no connected node takes. Those were in no batch.
    fn report_outcomes(&mut self, mut counts: BatchOutcomes, now: Instant) {
        self.record_outcomes(&counts);
        if let Some(last_error) = &counts.last_error {
            self.log_failures(counts.failed, last_error, now);
        }
        counts.clear();
        self.counts = counts;
    }

    fn log_failures(&mut self, failed: u64, last_error: &TransportError, now: Instant) {
        if let Some(failed) = self.log_limiter.add(failed, now) {
            let last_error = last_error.clone();
            log::line(Level::WARN, move || {
                tracing::warn!(failed, %last_error, "renewals are not confirmed; asking again until their deadlines");
            });
        }
    }

    fn record_outcomes(&self, counts: &BatchOutcomes) {
        let events = &self.inner.events;
        for &(labels, outcome, count) in &counts.outcomes {
            events.record_lock(labels, LockEvent::Renewal { outcome, count });
        }
        for &(labels, share) in &counts.margins {
            events.record_lock(labels, LockEvent::MarginLeft { share });
        }
    }

    // Thousands of leases may be lost at once, and each loss takes locks, a recorder's time and a log line. Between two
    // portions of losses the driver sends other batches and handles answers.
    fn report_events(&mut self) {
        self.unreported.extend(self.scheduler.take_events());
        for event in (0..REPORTED_AT_ONCE).map_while(|_| self.unreported.pop_front()).collect::<Vec<_>>() {
            self.report(event);
        }
    }

    fn is_behind(&self) -> bool {
        !self.unreported.is_empty()
    }

    fn report_rest(&mut self) {
        self.report_events();
        self.dispatch(self.inner.clock.now()); // a clock step makes leases due
    }

    fn report(&mut self, event: Event) {
        match event {
            Event::Lost(lease, reason) => loss::handle_loss(&self.inner, &lease, reason),
            Event::Downgraded(lease) => downgrade::handle_confirmed(&self.inner, &lease),
            Event::Jeopardy(lease) => {
                self.inner.events.record_lock(lease.labels(), LockEvent::Jeopardy);
                log::line(Level::DEBUG, move || {
                    tracing::debug!(
                        lock = lease.key.name(),
                        "a lease is in jeopardy: a renewal was not confirmed"
                    );
                });
            }
            Event::FoundTtl { lease, found, expected: (least, most), clock } => {
                let found_ttl = LockEvent::FoundTtl { found, least, most };
                self.inner.events.record_lock(lease.labels(), found_ttl);
                if self.stepped.insert(clock) {
                    self.expedite(clock);
                    log::line(Level::WARN, move || {
                        tracing::warn!(
                            lock = lease.key.name(),
                            ?found,
                            ?least,
                            ?most,
                            "a renewal found a ttl that cannot be: the server's clock stepped, or another hand changed it"
                        );
                    });
                }
            }
        }
    }
}

/// How many events the driver reports before it looks at answers and due renewals again. At 50 us each they take 3 ms.
const REPORTED_AT_ONCE: usize = 64;
