//! Tests the scheduler with random histories: registrations, releases, manual renewals, answers of every kind in any order,
//! nodes that connect and disconnect, missed ticks. `check` has the conditions that must hold after each step.

use std::collections::HashSet;

use proptest::prelude::*;

use tokio::sync::oneshot;

use super::*;
use crate::{
    lease::shared::{Terms, tests::core},
    renewal::manual,
    renewal::{batch::Batch, batch_outcomes::BatchOutcomes},
    routing::topology::{Batching, Node, NodeId},
    transport::{Call, ErrorKind, Outcome, ServerTime, TransportError},
};

const TTLS: [u64; 3] = [1_000, 4_000, 10_000];

#[derive(Clone, Debug)]
enum Op {
    Register { ttl: usize, renewed: bool, max_hold_ms: Option<u64> },
    Release { which: prop::sample::Index, told: bool },
    Pass { ms: u64 },
    Send { free: usize },
    Answer { which: prop::sample::Index, kind: u8 },
    Look { which: prop::sample::Index, ahead_ms: u64 },
    Node { epoch: u32, connected: bool },
    Hurry { in_jeopardy: bool },
    ManualRenewal { which: prop::sample::Index, ttl_ms: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        3 => (0..3usize, prop::bool::weighted(0.8), prop::option::weighted(0.3, 0..6_000u64))
            .prop_map(|(ttl, renewed, max_hold_ms)| Op::Register { ttl, renewed, max_hold_ms }),
        1 => (which(), any::<bool>()).prop_map(|(which, told)| Op::Release { which, told }),
        6 => prop_oneof![4 => 0..200u64, 2 => 0..2_000u64, 1 => 0..20_000u64].prop_map(|ms| Op::Pass { ms }),
        8 => (0..3usize).prop_map(|free| Op::Send { free }),
        8 => (which(), 0..8u8).prop_map(|(which, kind)| Op::Answer { which, kind }),
        2 => (which(), 0..60u64).prop_map(|(which, ahead_ms)| Op::Look { which, ahead_ms }),
        1 => (1..3u32, prop::bool::weighted(0.7)).prop_map(|(epoch, connected)| Op::Node { epoch, connected }),
        1 => any::<bool>().prop_map(|in_jeopardy| Op::Hurry { in_jeopardy }),
        1 => (which(), 1_000..30_000u64).prop_map(|(which, ttl_ms)| Op::ManualRenewal { which, ttl_ms }),
    ]
}

/// What the model knows of a lease.
struct Life {
    lease: Arc<LeaseCore>,
    ticket: u64,
    not_before: Instant,
    released: bool,
    refused: bool,
    seen_over: bool,
    losses: usize,
}

struct World {
    scheduler: Scheduler,
    now: Instant,
    topology: Topology,
    version: u64,
    lives: Vec<Life>,
    in_flight: Vec<(Batch, Instant)>,
    manual: Vec<oneshot::Receiver<ManualOutcome>>,
}

impl World {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_007);
        let timeout = Duration::from_secs(1);
        let mut world = Self {
            scheduler: Scheduler::new(now, timeout),
            now,
            topology: Topology::default(),
            version: 0,
            lives: Vec::new(),
            in_flight: Vec::new(),
            manual: Vec::new(),
        };
        world.set_node(1, true);
        world
    }

    fn set_node(&mut self, epoch: u32, connected: bool) {
        self.version += 1;
        let clock = ClockId { node: NodeId(0), epoch };
        let (id, address, up_since) = (NodeId(0), "n".into(), None);
        let node = Node {
            id,
            address,
            clock,
            up_since,
            run_id: None,
            connected,
            batch_leases_max: 2,
            batching: Batching::AcrossSlots,
        };
        self.topology = Topology::single(self.version, node);
    }

    fn act(&mut self, op: Op) {
        match op {
            Op::Register { ttl, renewed, max_hold_ms } => self.register(TTLS[ttl], renewed, max_hold_ms),
            Op::Release { which, told } => self.release(which, told),
            Op::Pass { ms } => {
                self.now = self.now + Duration::from_millis(ms);
                self.scheduler.advance(self.now);
                self.handle_answer_of();
                self.check_ticked();
            }
            Op::Send { free } => self.send(free),
            Op::Answer { which, kind } => self.answer(which, kind),
            Op::Look { which, ahead_ms } => self.look(which, ahead_ms),
            Op::Node { epoch, connected } => self.set_node(epoch, connected),
            Op::Hurry { in_jeopardy } => {
                let how = if in_jeopardy { Move::InDoubt } else { Move::WithItsLocks };
                self.scheduler.expedite(|_| Some(how));
                self.lives.iter_mut().for_each(|life| life.not_before = self.now);
            }
            Op::ManualRenewal { which, ttl_ms } => self.request(which, ttl_ms),
        }
        self.handle_answer_of();
        self.check();
    }

    fn register(&mut self, ttl_ms: u64, renewed: bool, max_hold_ms: Option<u64>) {
        let ttl = Duration::from_millis(ttl_ms);
        let terms = Terms {
            kind: crate::transport::HoldKind::Exclusive,
            ttl,
            renewed,
            max_hold: max_hold_ms.map(Duration::from_millis),
            labels: crate::metrics::LabelSet::DEFAULT,
        };
        let lease = core(&format!("lease {}", self.lives.len()), terms, self.now);
        lease.take(self.now);
        let baseline = TtlExpectation::new(self.now, self.now, ttl);
        self.scheduler.handle_order(Order::Register(lease.clone(), baseline), self.now, &self.topology);
        self.lives.push(Life {
            ticket: lease.ticket().unwrap(),
            not_before: earliest_renewal(self.now, ttl),
            released: false,
            refused: false,
            seen_over: false,
            losses: 0,
            lease,
        });
    }

    fn release(&mut self, which: prop::sample::Index, told: bool) {
        if self.lives.is_empty() {
            return;
        }
        let life = which.get(&self.lives[..]);
        let (lease, place) = (life.lease.clone(), which.index(self.lives.len()));
        self.lives[place].released |= lease.release();
        if told {
            self.scheduler.handle_order(Order::Cancel(lease), self.now, &self.topology);
        }
    }

    fn send(&mut self, free: usize) {
        let counts = &mut BatchOutcomes::default();
        for batch in self.scheduler.take_batches(self.now, &self.topology, |_| free, counts) {
            assert!(!batch.members.is_empty() && batch.members.len() <= 2);
            for member in &batch.members {
                self.check_sent(member);
            }
            self.in_flight.push((batch, self.now));
        }
    }

    fn check_sent(&self, member: &Call) {
        let flying = self.in_flight.iter().flat_map(|(batch, _)| &batch.members);
        let life = self.life(member.ticket);
        // A renewal of a lease that has ended may still be in flight. No other renewal in flight has the same ticket.
        assert!(!flying.into_iter().any(|other| other.ticket == member.ticket), "twice in flight");
        assert!(!life.released && life.losses == 0, "after its end");
        assert!(life.not_before <= self.now, "early");
        assert!(self.now < life.lease.deadline() && !life.seen_over, "after its deadline");
        assert!(life.lease.wants_renewal(self.now) || !self.manual.is_empty(), "nobody wants it");
    }

    fn life(&self, ticket: u64) -> &Life {
        self.lives.iter().find(|life| life.ticket == ticket).unwrap()
    }

    fn answer(&mut self, which: prop::sample::Index, kind: u8) {
        if self.in_flight.is_empty() {
            return;
        }
        let (batch, sent) = self.in_flight.swap_remove(which.index(self.in_flight.len()));
        let epoch = self.topology.nodes()[0].clock.epoch;
        let clock = ClockId { node: NodeId(0), epoch: if kind == 7 { epoch + 1 } else { epoch } };
        let at = ServerTime { micros: self.now.as_nanos() / 1_000, clock };
        for member in &batch.members {
            let now = self.now;
            let life = self.lives.iter_mut().find(|life| life.ticket == member.ticket).unwrap();
            life.refused |= matches!(kind, 1 | 5);
            // A manual renewal that was requested meanwhile is sent at once, whatever the answer.
            let next = if matches!(kind, 0 | 6) { earliest_renewal(sent, life.lease.ttl()) } else { now };
            life.not_before = if self.manual.is_empty() { next } else { now };
        }
        let tickets: Vec<_> = batch.members.iter().map(|member| member.ticket).collect();
        let is_over = |ticket: &u64| self.life(*ticket).lease.deadline() <= self.now;
        let over: Vec<_> = tickets.into_iter().filter(is_over).collect();
        let answered = |member: Call| member.answered(answer(kind, at));
        let answers: Vec<_> = batch.members.into_iter().map(answered).collect();
        self.scheduler.handle_answers(
            &answers,
            sent,
            self.now,
            &self.topology,
            &mut BatchOutcomes::default(),
        );
        let is_renewed = |life: &Life| life.lease.is_live() && self.now < life.lease.deadline();
        assert!(!over.into_iter().any(|ticket| is_renewed(self.life(ticket))), "renewed after its deadline");
    }

    fn look(&mut self, which: prop::sample::Index, ahead_ms: u64) {
        if self.lives.is_empty() {
            return;
        }
        let place = which.index(self.lives.len());
        let life = &mut self.lives[place];
        let held = life.lease.is_held(self.now + Duration::from_millis(ahead_ms));
        assert!(!(held && life.seen_over), "held again");
        life.seen_over |= !held;
    }

    fn request(&mut self, which: prop::sample::Index, ttl_ms: u64) {
        if self.lives.is_empty() {
            return;
        }
        let place = which.index(self.lives.len());
        let (answer_to, receiver) = manual::tests::channel();
        let lease = self.lives[place].lease.clone();
        let order = Order::Renew(lease, Duration::from_millis(ttl_ms), answer_to);
        self.scheduler.handle_order(order, self.now, &self.topology);
        self.lives[place].not_before = self.now;
        self.manual.push(receiver);
    }

    fn handle_answer_of(&mut self) {
        for event in self.scheduler.take_events() {
            let Event::Lost(lease, reason) = event else { continue };
            let now = self.now;
            let life = self.lives.iter_mut().find(|life| Arc::ptr_eq(&life.lease, &lease)).unwrap();
            life.losses += 1;
            assert!(life.losses == 1 && !life.released, "lost twice, or after its release");
            let over = lease.deadline() <= now || life.seen_over;
            match reason {
                LossReason::NotOurs => assert!(life.refused),
                LossReason::Expired => assert!(over),
                LossReason::MaxHold => assert!(over && lease.terms().max_hold.is_some()),
                LossReason::Shutdown | LossReason::RenewalStopped | LossReason::Forked => {
                    panic!("{reason:?}")
                }
            }
            life.seen_over = true;
        }
    }

    fn check_ticked(&self) {
        for life in &self.lives {
            let noticed = due_tick(life.lease.deadline()) > tick_at(self.now) || !life.lease.is_live();
            assert!(noticed, "its deadline has passed and nobody knows");
        }
    }

    fn check(&self) {
        let kept: HashSet<_> = self.lives.iter().filter_map(|life| life.lease.ticket()).collect();
        assert_eq!(kept.len(), self.scheduler.len());
        for life in &self.lives {
            let live = life.lease.is_live();
            assert_eq!(live, !life.released && life.losses == 0, "ended, and not told");
            assert!(!live || life.lease.ticket().is_some(), "alive, and not kept");
            let Some(ticket) = life.lease.ticket() else { continue };
            let due = self.scheduler.wheel.due(number(ticket)).expect("in the wheel");
            let latest = due_tick(life.lease.deadline()).max(tick_at(self.now) + 1);
            assert!(!live || due <= latest, "its loss would be noticed late");
        }
    }

    /// Ends everything: every request is answered, and the scheduler is empty.
    fn end(mut self) {
        self.act(Op::Pass { ms: 100_000 });
        assert_eq!((self.scheduler.len(), self.scheduler.manual.len()), (0, 0));
        for receiver in &mut self.manual {
            assert!(receiver.try_recv().is_ok(), "a request without an answer");
        }
    }
}

/// A renewal may be sent together with renewals that are due up to an eighth of its period earlier.
fn earliest_renewal(sent: Instant, ttl: Duration) -> Instant {
    state::renew_at(sent, ttl).before(ttl / 3 / 8 + TICK)
}

fn answer(kind: u8, at: ServerTime) -> Outcome {
    let found = Duration::from_millis(500);
    let last_error = |kind| Outcome::Failed(TransportError::without_effect(kind, None, "no"));
    match kind {
        1 => Outcome::NotYours { at },
        2 => Outcome::TooLate { at },
        3 => Outcome::Failed(TransportError::unknown(ErrorKind::TimedOut, at, "no answer")),
        4 => last_error(ErrorKind::Unreachable),
        5 => last_error(ErrorKind::WrongType),
        0 | 6.. => Outcome::Renewed { found, at },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn s2_s8_whatever_happens_a_lease_is_renewed_in_time_once_at_a_time_and_lost_once(
        ops in prop::collection::vec(op(), 1..120)
    ) {
        let mut world = World::new();
        ops.into_iter().for_each(|op| world.act(op));
        world.end();
    }
}
