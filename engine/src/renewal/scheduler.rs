//! The renewal scheduler: decides when each lease is renewed, and what an answer means. Pure: `now` is passed in.
//!
//! A lease that its caller has not taken yet is not renewed. Such a lease ends at its first deadline, or is taken
//! before and renewed from then on.
//!
//! A live lease is in exactly one bucket of the wheel: at `renew_at` while idle, at its *deadline* while it
//! waits for its batch or a renewal of it is in flight. So a lease is never renewed twice at once, and its loss is
//! noticed without any reply. Lost is final: a late "renewed" changes nothing.
//!
//! The scheduler sends nothing. `take_batches` (in `batches`) forms batches of ready leases, and `handle_answers` (in
//! `answers`) applies the results of the renewals. The driver does the rest.

mod answers;
mod batches;

use std::{sync::Arc, time::Duration};

use super::{
    batch::ReadyQueue,
    deadline_queue::Ready,
    inbox::Order,
    manual::{AnswerTo, ManualOutcome, ManualRenewals},
    slab::Slab,
    slot_alignment,
    smoothing::Smoothing,
    ttl_check::TtlExpectation,
    wheel::Wheel,
};
use crate::{
    clock::Instant,
    lease::{
        shared::LeaseCore,
        state::{self, LossReason},
    },
    routing::{
        moves::{Move, Moves},
        slot::Slot,
        topology::{Batching, ClockId, Topology},
    },
};

/// The resolution of the scheduler. A loss is reported at most two ticks after the deadline.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// An event of a lease that the driver must report.
#[derive(Debug)]
pub(crate) enum Event {
    Lost(Arc<LeaseCore>, LossReason),
    Jeopardy(Arc<LeaseCore>),
    /// A server has confirmed that the write lease is a read lease.
    Downgraded(Arc<LeaseCore>),
    /// A renewal found another ttl than the expected ttl: the server's clock stepped, or another client changed the
    /// lock.
    FoundTtl {
        lease: Arc<LeaseCore>,
        found: Duration,
        expected: (Duration, Duration),
        clock: ClockId,
    },
}

#[derive(Debug)]
struct Record {
    lease: Arc<LeaseCore>,
    stage: Stage,
    /// The number of consecutive `TooLate` answers.
    too_late: u8,
    /// The lease's server changed while a renewal was in flight. If that renewal fails, the next one is sent without a
    /// pause.
    retry_at_once: bool,
    /// What is sent next while no server has confirmed the downgrade of the lease.
    downgrade: DowngradeStep,
    /// The slot of the lease's key. Kept here so that a walk over all records reads no lease.
    slot: Slot,
    baseline: TtlExpectation,
    /// The tick in which the lease was to be renewed.
    due: u64,
}

/// A server may refuse downgrades for as long as a slot moves. Between two of them the lease is renewed, so that it does
/// not run out: as a write lease, and if the server knows no such hold, as a read lease, because a downgrade without an
/// answer may have been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DowngradeStep {
    #[default]
    Downgrade,
    RenewAsWriter,
    RenewAsReader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Ready,
    InFlight,
}

/// The leases of an engine that end or are renewed at a moment to come.
#[derive(Debug)]
pub(crate) struct Scheduler {
    wheel: Wheel,
    smoothing: Smoothing,
    records: Slab<Record>,
    /// Leases that became ready and are not in the queue of their node yet.
    readied: Vec<Ready>,
    ready: ReadyQueue,
    fired: Vec<u32>,
    manual: ManualRenewals,
    events: Vec<Event>,
    command_timeout: Duration,
    lateness: Vec<Duration>,
}

impl Scheduler {
    pub(crate) fn new(now: Instant, command_timeout: Duration) -> Self {
        Self {
            wheel: Wheel::new(tick_at(now)),
            smoothing: Smoothing::new(tick_at(now)),
            records: Slab::default(),
            readied: Vec::new(),
            ready: ReadyQueue::default(),
            fired: Vec::new(),
            manual: ManualRenewals::default(),
            events: Vec::new(),
            command_timeout,
            lateness: Vec::new(),
        }
    }

    /// The number of leases that the scheduler has.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn handle_order(&mut self, order: Order, now: Instant, topology: &Topology) {
        match order {
            Order::Register(lease, baseline) => self.register(lease, baseline, now, topology),
            Order::Taken(lease) => self.handle_taken(&lease),
            Order::Cancel(lease) => self.remove(self.ticket_of(&lease)),
            Order::Downgrade(lease) => self.handle_downgrade(&lease),
            Order::Renew(lease, ttl, answer_to) => self.request(&lease, ttl, answer_to),
        }
    }

    fn register(
        &mut self,
        lease: Arc<LeaseCore>,
        baseline: TtlExpectation,
        now: Instant,
        topology: &Topology,
    ) {
        if !lease.is_live() || self.ticket_of(&lease).is_some() {
            return; // released within the tick, or adopted before its order came
        }
        let due = self.next_tick(&lease, baseline.sent, now, topology);
        let record = Record {
            lease: lease.clone(),
            stage: Stage::Idle,
            too_late: 0,
            retry_at_once: false,
            downgrade: DowngradeStep::Downgrade,
            slot: lease.key.slot(),
            baseline,
            due,
        };
        let ticket = self.records.insert(record);
        lease.set_ticket(Some(ticket));
        self.wheel.insert(number(ticket), due);
        if lease.wants_downgrade() {
            self.make_ready(ticket); // a driver that panicked had the order
        }
    }

    // A ticket from a driver that panicked names another lease of this scheduler, or none.
    fn ticket_of(&self, lease: &LeaseCore) -> Option<u64> {
        let is_its = |record: &Record| std::ptr::eq(&*record.lease, lease);
        lease.ticket().filter(|ticket| self.records.get(*ticket).is_some_and(is_its))
    }

    /// Makes a lease due at once whose grant came from a server that is not the present server.
    pub(crate) fn doubt(&mut self, lease: &LeaseCore) {
        if let Some(ticket) = self.ticket_of(lease) {
            self.handle_move(ticket, Move::InDoubt);
        }
    }

    // The renewal of the lease was due, or the lease's server is not the server that granted it. So the renewal is sent
    // at once.
    fn handle_taken(&mut self, lease: &LeaseCore) {
        let idle = |ticket: &u64| self.records.get(*ticket).is_some_and(|record| record.stage == Stage::Idle);
        self.ticket_of(lease).filter(idle).into_iter().for_each(|ticket| self.make_ready(ticket));
    }

    // While a renewal is in flight, the downgrade is sent after its answer.
    fn handle_downgrade(&mut self, lease: &LeaseCore) {
        self.handle_taken(lease);
    }

    fn remove(&mut self, ticket: Option<u64>) {
        let Some(ticket) = ticket else { return };
        let Some(record) = self.records.remove(ticket) else { return };
        self.wheel.cancel(number(ticket));
        if record.stage == Stage::Idle && record.lease.is_renewed() {
            self.smoothing.release(record.due);
        }
        record.lease.set_ticket(None);
        self.manual.answer_all(ticket, &ManualOutcome::ended(record.lease.loss()));
    }

    /// Moves the wheel to `now`. A lease whose deadline has come is lost; a lease that is due becomes ready.
    pub(crate) fn advance(&mut self, now: Instant) {
        let mut fired = std::mem::take(&mut self.fired);
        self.wheel.advance(tick_at(now), &mut fired);
        self.smoothing.advance(tick_at(now));
        for entry in fired.drain(..) {
            self.handle_fired(entry, now);
        }
        self.fired = fired;
    }

    fn handle_fired(&mut self, entry: u32, now: Instant) {
        let Some((ticket, record)) = self.records.at(entry) else { return };
        let (lease, idle) = (record.lease.clone(), record.stage == Stage::Idle);
        if !lease.is_live() {
            self.remove(Some(ticket));
        } else if now >= lease.deadline() {
            self.lose(ticket, lease.reason_at_deadline());
        } else {
            let is_due = || lease.wants_renewal(now) && !lease.await_taking(); // the usual case
            if idle && (is_due() || lease.wants_downgrade() || self.manual.is_any(ticket)) {
                self.make_ready(ticket);
            } else {
                self.wheel.insert(entry, due_tick(lease.deadline()));
            }
        }
    }

    // The lease's deadline stays in the wheel while the lease waits for its batch and while its renewal is in flight.
    fn make_ready(&mut self, ticket: u64) {
        let Some(record) = self.records.get_mut(ticket) else { return };
        if record.stage == Stage::Idle {
            self.smoothing.release(record.due); // made ready early, or its tick has come
        }
        record.stage = Stage::Ready;
        let deadline = record.lease.deadline();
        self.readied.push(Ready::new(deadline, ticket, record.slot));
        self.wheel.insert(number(ticket), due_tick(deadline));
    }

    fn lose(&mut self, ticket: u64, reason: LossReason) {
        let Some(record) = self.records.get(ticket) else { return };
        let lease = record.lease.clone();
        if lease.lose(reason) {
            self.events.push(Event::Lost(lease, reason));
        }
        self.remove(Some(ticket));
    }

    fn note_due(&mut self, ticket: u64, due: u64) {
        if let Some(record) = self.records.get_mut(ticket) {
            record.due = due;
        }
    }

    /// The tick at which the wheel fires a lease that was confirmed by a command sent at `sent`: the tick of its next
    /// renewal if there is one, else of its deadline.
    fn next_tick(&mut self, lease: &LeaseCore, sent: Instant, now: Instant, topology: &Topology) -> u64 {
        if !lease.wants_renewal(now) {
            return due_tick(lease.deadline());
        }
        let (slot, ttl) = (lease.key.slot(), state::renewal_ttl(lease.kind(), lease.ttl()));
        match topology.serving(slot).map_or(Batching::AcrossSlots, |node| node.batching) {
            Batching::AcrossSlots => {
                let (due, period) =
                    (due_tick(state::renew_at(sent, ttl)), due_tick(Instant::default() + ttl / 3));
                self.smoothing.reserve(due, period, self.records.len())
            }
            Batching::BySlot => due_tick(slot_alignment::in_step(sent, ttl, slot, now)),
        }
    }

    fn enter_jeopardy(&mut self, ticket: u64) {
        let Some(record) = self.records.get(ticket) else { return };
        if record.lease.enter_jeopardy() {
            self.events.push(Event::Jeopardy(record.lease.clone()));
        }
    }

    /// Makes every lease due at once whose slot has moved, after a change of the topology.
    pub(crate) fn handle_moves(&mut self, moves: &Moves) {
        self.ready.forget_grouping();
        if !moves.is_empty() {
            self.expedite(|slot| moves.of(slot));
        }
    }

    /// Makes every lease due at once for whose slot `moved` returns a move: its server is not the server that the
    /// engine knew, or its server's clock stepped.
    pub(crate) fn expedite(&mut self, moved: impl Fn(Slot) -> Option<Move>) {
        let mut concerned = Vec::new();
        self.records.for_each(|ticket, record| {
            let how = moved(record.slot).filter(|_| record.lease.is_live());
            concerned.extend(how.map(|how| (ticket, how)));
        });
        concerned.into_iter().for_each(|(ticket, how)| self.handle_move(ticket, how));
    }

    fn handle_move(&mut self, ticket: u64, how: Move) {
        let Some(record) = self.records.get_mut(ticket) else { return };
        record.retry_at_once |= record.stage == Stage::InFlight;
        if record.stage == Stage::Idle && record.lease.is_renewed() && !record.lease.await_taking() {
            self.make_ready(ticket);
        }
        match how {
            Move::InDoubt => self.enter_jeopardy(ticket),
            Move::WithItsLocks => {}
        }
    }

    fn request(&mut self, lease: &Arc<LeaseCore>, ttl: Duration, answer_to: AnswerTo) {
        let Some(ticket) = self.ticket_of(lease) else {
            if !lease.is_live() {
                answer_to.answer(ManualOutcome::ended(lease.loss()));
            }
            return; // a live lease is about to be registered again; the dropped sender means that the result is unknown
        };
        if self.records.get(ticket).is_some_and(|record| record.stage == Stage::Idle) {
            self.make_ready(ticket);
        }
        self.manual.request(ticket, ttl, answer_to);
    }

    fn answer_sent_requests(&mut self, ticket: u64, answer: &ManualOutcome) {
        if self.manual.answer_sent(ticket, answer) {
            self.make_ready(ticket); // requested while a renewal was in flight: sent with the next renewal
        }
    }

    /// The events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// The last tick that has begun at `now`.
fn tick_at(now: Instant) -> u64 {
    now.as_nanos() / TICK_NANOS
}

/// The first tick that does not begin before `moment`.
fn due_tick(moment: Instant) -> u64 {
    moment.as_nanos().div_ceil(TICK_NANOS)
}

/// The wheel's entry number for a ticket.
fn number(ticket: u64) -> u32 {
    super::slab::index(ticket)
}

const TICK_NANOS: u64 = 50_000_000;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model;
