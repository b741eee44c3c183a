//! Ticks: reads the clock, empties the inboxes, advances the shards, sends their batches, applies the answers. One
//! task on the renewal thread, with a lane of its own.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::Level;

use super::{
    batch::Batch,
    flights::Flights,
    found_ttl::Baseline,
    grumble::Grumble,
    inbox::Order,
    shard::{Happening, TICK},
    shards::Shards,
    tally::Tally,
};
use crate::{
    clock::Instant,
    contention::ending,
    lease::shared::LeaseCore,
    log,
    metrics::{EngineThread, Operation},
    routing::{
        moves::{Move, Moves},
        topology::{ClockId, NodeId, Topology},
    },
    transport::{Renewal, TransportError},
    works::Works,
};

/// A batch that came back.
struct Landed {
    batch: Batch,
    sent: Instant,
}

/// A batch on its way. It lands even if the transport panics: without answers then, and its leases run out.
struct Flight {
    landing: mpsc::UnboundedSender<Landed>,
    landed: Option<Landed>,
}

impl Landed {
    fn empty(node: NodeId, sent: Instant) -> Self {
        Self { batch: Batch { node, members: Vec::new() }, sent }
    }
}

impl Flight {
    fn land(&mut self, members: Vec<Renewal>) {
        if let Some(landed) = &mut self.landed {
            landed.batch.members = members;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _ = self.landed.take().map(|landed| self.landing.send(landed));
    }
}

/// The renewal driver's own state.
struct Driver {
    works: Arc<Works>,
    shards: Shards,
    orders: Vec<Order>,
    flights: Flights,
    landing: mpsc::UnboundedSender<Landed>,
    known: Arc<Topology>,
    /// Servers whose clock was seen to step: their leases were hurried once.
    hurried: HashSet<ClockId>,
    /// Kept for its room.
    tally: Tally,
    grumble: Grumble,
    /// What has happened to leases and is not told yet.
    untold: VecDeque<Happening>,
}

/// Runs until the engine ends. Begun again after a panic, it takes over the leases of the driver before it.
pub(crate) async fn run(works: Arc<Works>) {
    let (landing, mut landed) = mpsc::unbounded_channel();
    let mut driver = Driver::new(works.clone(), landing);
    driver.adopt();
    loop {
        driver.tick();
        let next_tick = next_boundary(works.clock.now());
        while works.clock.now() < next_tick {
            tokio::select! {
                () = works.clock.sleep_until(next_tick) => {}
                Some(back) = landed.recv() => driver.handle_landed(back),
                () = works.inboxes.urgent() => driver.handle_urgent(),
                () = tokio::task::yield_now(), if driver.is_behind() => driver.handle_untold(),
            }
        }
        works.events.timer_late(EngineThread::Renewal, works.clock.now() - next_tick);
    }
}

/// The lease that is being registered, if its grant came from a server that is not the present one.
fn doubtful(order: &Order, known: &Topology) -> Option<Arc<LeaseCore>> {
    match order {
        Order::Register(lease, _) if !known.is_current(lease.granted_by) => Some(lease.clone()),
        Order::Register(..) | Order::Taken(_) | Order::Cancel(_) | Order::Renew(..) => None,
    }
}

// Ticks fall on the wheel's own boundaries, so that nothing waits for a second one.
fn next_boundary(now: Instant) -> Instant {
    let tick = TICK.as_nanos() as u64;
    Instant::from_nanos((now.as_nanos() / tick + 1) * tick)
}

impl Driver {
    fn new(works: Arc<Works>, landing: mpsc::UnboundedSender<Landed>) -> Self {
        let shards = Shards::new(works.inboxes.len(), works.clock.now(), works.config.command_timeout());
        let flights = Flights::new(works.config.batches_in_flight_max);
        Self {
            works,
            shards,
            orders: Vec::new(),
            flights,
            landing,
            known: Arc::default(),
            hurried: HashSet::new(),
            tally: Tally::default(),
            grumble: Grumble::default(),
            untold: VecDeque::new(),
        }
    }

    // Every live lease is in the table. What a driver before this one kept of them is gone: each is registered again, as
    // if its last confirmed command had been sent when its deadline says and answered just now.
    //
    // A lease that is lost and still in the table is one whose loss the driver before this one had not handled yet.
    fn adopt(&mut self) {
        let now = self.works.clock.now();
        let mut leases = Vec::new();
        self.works.table.for_each_lease(|lease| leases.push(lease.clone()));
        for lease in leases {
            match lease.loss() {
                Some(reason) => ending::handle_loss(&self.works, &lease, reason),
                None => self.register_again(lease, now),
            }
        }
    }

    fn register_again(&self, lease: Arc<LeaseCore>, now: Instant) {
        if lease.is_live() {
            let baseline = Baseline::adopted(&lease, now);
            self.works.inboxes.push(lease.key.slot(), Order::Register(lease, baseline));
        }
    }

    fn tick(&mut self) {
        let now = self.works.clock.now();
        self.drain_inboxes(now);
        self.shards.advance(now);
        self.dispatch(now);
        self.tell_happenings();
        self.works.count_tick(); // last: a driver that never gets here stands still
    }

    fn handle_urgent(&mut self) {
        let now = self.works.clock.now();
        self.drain_inboxes(now);
        self.dispatch(now);
    }

    // The topology comes first: a lease is in doubt if its grant came from a server that is not the *present* one, and
    // those of the first moments would be if none were known yet.
    fn drain_inboxes(&mut self, now: Instant) {
        self.handle_topology();
        for number in 0..self.works.inboxes.len() {
            self.works.inboxes.take(number, &mut self.orders);
            for order in self.orders.drain(..) {
                let doubtful = doubtful(&order, &self.known);
                self.shards.handle_order(order, now, &self.known);
                doubtful.iter().for_each(|lease| self.shards.doubt(lease));
            }
        }
    }

    // Another server, or another run of it, answers for a slot from now on: what it says about our leases is news, so all
    // of them are asked. The slot tables are compared once; the leases of a shard are visited once, and only if need be.
    fn handle_topology(&mut self) {
        let Some(topology) = self.works.renewals.topology() else { return };
        if Arc::ptr_eq(&topology, &self.known) {
            return;
        }
        let earlier = std::mem::replace(&mut self.known, topology.clone());
        self.tell_nodes(&earlier, &topology);
        self.hurried.retain(|clock| topology.is_current(*clock));
        self.shards.handle_moves(&Moves::between(&earlier, &topology));
    }

    // A node that has left is not connected any more, whatever it was; it is told once.
    fn tell_nodes(&self, earlier: &Topology, topology: &Topology) {
        let events = &self.works.events;
        for node in topology.nodes() {
            if earlier.node(node.id).is_none_or(|before| before.connected != node.connected) {
                events.node_changed(&node.address, node.connected);
            }
            if node.connected && earlier.node(node.id).is_some_and(|before| !before.connected) {
                events.reconnected(&node.address);
            }
        }
        let left = earlier.nodes().iter().filter(|node| node.connected && topology.node(node.id).is_none());
        left.for_each(|node| events.node_changed(&node.address, false));
    }

    // The server's clock stepped: each of its leases is asked about, none is in doubt for that.
    fn hurry(&mut self, clock: ClockId) {
        let topology = self.known.clone();
        let serves = |slot| topology.serving(slot).is_some_and(|node| node.id == clock.node);
        self.shards.hurry(|lease| serves(lease.key.slot()).then_some(Move::WithItsLocks));
    }

    fn dispatch(&mut self, now: Instant) {
        let (topology, mut tally) = (self.known.clone(), std::mem::take(&mut self.tally));
        let room = |node| self.flights.room(node);
        let batches = self.shards.take_batches(now, &topology, room, &mut tally);
        batches.into_iter().for_each(|batch| self.send(batch, now));
        for late in self.shards.take_lateness() {
            self.works.events.renewal_late(late);
        }
        self.tell_outcomes(tally, now);
    }

    fn send(&mut self, batch: Batch, sent: Instant) {
        self.flights.start(batch.node);
        let (lane, landing) = (self.works.renewals.lane(), self.landing.clone());
        // Of nobody's span: whoever asked for these leases may be done long since.
        let (node, leases) = (batch.node.0, batch.members.len());
        let span = log::BackgroundSpan::open(
            Level::TRACE,
            move || tracing::trace_span!(parent: None, "lock.renew", node, leases),
        );
        let flight = async move {
            let _span = span;
            let Batch { node, members } = batch;
            let mut flight = Flight { landing, landed: Some(Landed::empty(node, sent)) };
            let members = match lane {
                Some(lane) => lane.renew(node, members).await,
                None => members,
            };
            flight.land(members);
        };
        tokio::spawn(flight);
    }

    fn handle_landed(&mut self, landed: Landed) {
        let Landed { batch, sent } = landed;
        let (now, members) = (self.works.clock.now(), batch.members.len());
        self.flights.end(batch.node);
        self.handle_topology(); // what the answers say is held against the servers of this moment
        let (topology, mut tally) = (self.known.clone(), std::mem::take(&mut self.tally));
        self.shards.handle_answers(&batch.members, sent, now, &topology, &mut tally);
        self.tell_batch(members, now - sent, &tally);
        self.tell_outcomes(tally, now);
        self.tell_happenings();
        self.dispatch(now);
    }

    fn tell_batch(&self, members: usize, took: Duration, tally: &Tally) {
        let events = &self.works.events;
        events.renewed(members, took, tally.answered() > 0);
        events.answered(Operation::Renew, took, tally.last_error.as_ref());
    }

    // Also of renewals that no connected node takes: those were in no batch.
    fn tell_outcomes(&mut self, mut tally: Tally, now: Instant) {
        self.tell_tally(&tally);
        if let Some(last_error) = &tally.last_error {
            self.complain(tally.failed, last_error, now);
        }
        tally.clear();
        self.tally = tally;
    }

    fn complain(&mut self, failed: u64, last_error: &TransportError, now: Instant) {
        if let Some(failed) = self.grumble.add(failed, now) {
            let last_error = last_error.clone();
            log::line(Level::WARN, move || {
                tracing::warn!(failed, %last_error, "renewals are not confirmed; asking again until their deadlines");
            });
        }
    }

    fn tell_tally(&self, tally: &Tally) {
        let events = &self.works.events;
        events.totals.renewals.add(tally.renewed);
        events.totals.renewals_failed.add(tally.failed + tally.too_late);
        for (class, outcome, count) in &tally.outcomes {
            events.renewal(events.class(*class), *outcome, *count);
        }
        for (class, share) in &tally.margins {
            events.margin_left(events.class(*class), *share);
        }
    }

    // Thousands of leases may be lost at once, and each loss takes locks, a recorder's time and a line in the log.
    // Between two portions of them other batches are sent and answers are handled.
    fn tell_happenings(&mut self) {
        self.untold.extend(self.shards.take_happenings());
        for happening in (0..TOLD_AT_ONCE).map_while(|_| self.untold.pop_front()).collect::<Vec<_>>() {
            self.tell(happening);
        }
    }

    fn is_behind(&self) -> bool {
        !self.untold.is_empty()
    }

    fn handle_untold(&mut self) {
        self.tell_happenings();
        self.dispatch(self.works.clock.now()); // a clock that stepped makes leases due
    }

    fn tell(&mut self, happening: Happening) {
        match happening {
            Happening::Lost(lease, reason) => ending::handle_loss(&self.works, &lease, reason),
            Happening::Jeopardy(lease) => {
                self.works.events.totals.jeopardies.add(1);
                self.works.events.jeopardy(self.works.events.class(lease.class));
                log::line(Level::DEBUG, move || {
                    tracing::debug!(
                        lock = lease.key.name(),
                        "a lease is in jeopardy: a renewal was not confirmed"
                    );
                });
            }
            Happening::FoundTtl { lease, found, expected: (least, most), clock } => {
                let class = self.works.events.class(lease.class);
                self.works.events.found_ttl(class, found, least, most);
                if self.hurried.insert(clock) {
                    self.hurry(clock);
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

/// Happenings that are told before the driver looks at answers and due renewals again. At 50 us each they take 3 ms.
const TOLD_AT_ONCE: usize = 64;
