//! Tests the scheduler with hand-made answers; no clock, no transport.

use super::*;
use crate::{
    lease::shared::{Taken, Terms, tests::core},
    renewal::manual,
    renewal::{batch::Batch, batch_outcomes::BatchOutcomes},
    routing::topology::{Batching, Node, NodeId},
    transport::{ErrorKind, HoldKind, Op, Outcome, ServerTime, TransportError},
};

const TTL: Duration = Duration::from_secs(10);
const TERMS: Terms = Terms {
    kind: crate::transport::HoldKind::Exclusive,
    ttl: TTL,
    renewed: true,
    max_hold: None,
    labels: crate::metrics::LabelSet::DEFAULT,
};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn clock(epoch: u32) -> ClockId {
    ClockId { node: NodeId(0), epoch }
}

fn server(epoch: u32, ms: u64) -> ServerTime {
    ServerTime { micros: ms * 1000, clock: clock(epoch) }
}

fn topology(epoch: u32, connected: bool) -> Topology {
    let node = Node {
        id: NodeId(0),
        address: "n".into(),
        clock: clock(epoch),
        up_since: None,
        run_id: None,
        connected,
        batch_leases_max: 2,
        batching: Batching::AcrossSlots,
        round_trip: None,
    };
    Topology::single(u64::from(epoch) * 2 + u64::from(connected), node)
}

struct Ground {
    scheduler: Scheduler,
    topology: Topology,
    counts: BatchOutcomes,
}

impl Ground {
    fn new() -> Self {
        Self {
            scheduler: Scheduler::new(at(0), Duration::from_secs(1)),
            topology: topology(1, true),
            counts: BatchOutcomes::default(),
        }
    }

    /// A lease that its holder has taken.
    fn lease(&mut self, name: &str, terms: Terms) -> Arc<LeaseCore> {
        let lease = self.pending_grant(name, terms);
        assert_eq!(lease.take(at(0)), Taken::First);
        lease
    }

    fn pending_grant(&mut self, name: &str, terms: Terms) -> Arc<LeaseCore> {
        let lease = core(name, terms, at(0));
        let baseline = TtlExpectation::new(at(0), at(1), terms.ttl);
        self.scheduler.handle_order(Order::Register(lease.clone(), baseline), at(1), &self.topology);
        lease
    }

    fn due(&mut self, ms: u64) -> Vec<Batch> {
        self.scheduler.advance(at(ms));
        self.take_batches(ms, 10)
    }

    fn take_batches(&mut self, ms: u64, free: usize) -> Vec<Batch> {
        self.scheduler.take_batches(at(ms), &self.topology, |_| free, &mut self.counts)
    }

    fn answer(&mut self, batch: Batch, sent: u64, now: u64, answer: Outcome) -> bool {
        let members: Vec<_> =
            batch.members.into_iter().map(|member| member.answered(answer.clone())).collect();
        self.scheduler.handle_answers(&members, at(sent), at(now), &self.topology, &mut self.counts)
    }

    fn losses(&mut self) -> Vec<LossReason> {
        let lost = |event| match event {
            Event::Lost(_, reason) => Some(reason),
            Event::Jeopardy(_) | Event::Downgraded(_) | Event::FoundTtl { .. } => None,
        };
        self.scheduler.take_events().into_iter().filter_map(lost).collect()
    }
}

fn renewed(found_ms: u64, ms: u64) -> Outcome {
    Outcome::Renewed { found: Duration::from_millis(found_ms), at: server(1, ms) }
}

fn unknown(ms: u64) -> Outcome {
    Outcome::Failed(TransportError::unknown(ErrorKind::TimedOut, server(1, ms), "no answer"))
}

fn one(mut batches: Vec<Batch>) -> Batch {
    assert_eq!(batches.len(), 1, "{batches:?}");
    batches.remove(0)
}

#[test]
fn a_lease_is_due_at_a_third_and_its_deadline_moves_with_the_confirmation() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    assert!(ground.due(3_300).is_empty());
    let batch = one(ground.due(3_350));
    assert!(!ground.answer(batch, 3_350, 3_360, renewed(6_650, 3_355)));
    assert_eq!(lease.deadline(), at(3_350 + 9_500));
    assert!(ground.due(6_600).is_empty(), "next at 3350 + 3333");
    assert_eq!(ground.due(6_700).len(), 1);
    assert!(ground.scheduler.take_events().is_empty());
}

#[test]
fn s7_a_lease_that_is_not_taken_is_not_renewed_and_ends_at_its_deadline() {
    let mut ground = Ground::new();
    let lease = ground.pending_grant("a", TERMS);
    for ms in (50..9_500).step_by(50) {
        assert!(ground.due(ms).is_empty(), "at {ms}");
    }
    assert!(ground.due(9_500).is_empty());
    assert_eq!((ground.losses(), ground.scheduler.len()), (vec![LossReason::Expired], 0));
    assert_eq!(lease.take(at(9_501)), Taken::TooLate);
}

#[test]
fn a_lease_that_is_taken_after_its_renewal_was_due_is_renewed_at_once() {
    let mut ground = Ground::new();
    let lease = ground.pending_grant("a", TERMS);
    assert!(ground.due(5_000).is_empty() && lease.is_awaited());
    assert_eq!(lease.take(at(5_010)), Taken::First);
    ground.scheduler.handle_order(Order::Taken(lease.clone()), at(5_010), &ground.topology);
    let batch = one(ground.take_batches(5_010, 1));
    ground.answer(batch, 5_010, 5_020, renewed(4_980, 5_015));
    assert_eq!(lease.deadline(), at(5_010 + 9_500));
}

#[test]
fn a_lease_that_is_taken_before_its_renewal_is_due_needs_no_order() {
    let mut ground = Ground::new();
    let lease = ground.pending_grant("a", TERMS);
    assert!(ground.due(3_300).is_empty());
    assert_eq!(lease.take(at(3_310)), Taken::First);
    assert!(!lease.is_awaited());
    assert_eq!(ground.due(3_350).len(), 1);
}

#[test]
fn s12_a_lease_in_doubt_is_asked_about_once_it_is_taken() {
    let mut ground = Ground::new();
    let lease = ground.pending_grant("a", TERMS);
    ground.scheduler.doubt(&lease);
    assert!(lease.is_in_jeopardy() && ground.due(50).is_empty());
    assert_eq!(lease.take(at(60)), Taken::First);
    assert!(lease.is_awaited() && lease.is_in_jeopardy());
    ground.scheduler.handle_order(Order::Taken(lease), at(60), &ground.topology);
    assert_eq!(ground.take_batches(60, 1).len(), 1);
}

#[test]
fn a_renewal_in_flight_is_not_sent_again() {
    let mut ground = Ground::new();
    ground.lease("a", TERMS);
    let _in_flight = one(ground.due(3_350));
    for ms in (3_400..9_400).step_by(50) {
        assert!(ground.due(ms).is_empty(), "at {ms}");
    }
}

#[test]
fn s2_loss_is_noticed_at_the_deadline_without_any_reply() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let late = one(ground.due(3_350));
    ground.due(9_450);
    assert!(ground.losses().is_empty());
    ground.due(9_500);
    assert_eq!(ground.losses(), [LossReason::Expired]);
    ground.answer(late, 3_350, 9_600, renewed(500, 9_550));
    assert_eq!((lease.loss(), ground.scheduler.len()), (Some(LossReason::Expired), 0));
}

#[test]
fn an_unanswered_renewal_leaves_the_deadline_and_is_asked_again() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(3_350));
    ground.answer(batch, 3_350, 4_350, unknown(4_350));
    assert!(lease.is_in_jeopardy() && lease.deadline() == at(9_500));
    assert!(!lease.take_open().is_closed(), "S5: the owner is open");
    let again = one(ground.due(4_700));
    ground.answer(again, 4_700, 4_701, renewed(5_300, 4_700));
    assert_eq!((lease.is_in_jeopardy(), lease.deadline()), (false, at(4_700 + 9_500)));
}

#[test]
fn not_yours_is_a_loss_at_once() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(3_350));
    ground.answer(batch, 3_350, 3_351, Outcome::NotYours { at: server(1, 3_350) });
    assert_eq!(ground.losses(), [LossReason::NotOurs]);
    assert!(!lease.is_held(at(3_352)));
}

#[test]
fn an_answer_of_an_older_epoch_is_unknown() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(3_350));
    ground.topology = topology(2, true);
    ground.answer(batch, 3_350, 3_360, Outcome::NotYours { at: server(1, 3_355) });
    assert!(lease.is_live() && lease.is_in_jeopardy());
    assert_eq!((ground.counts.failed, ground.counts.answered()), (1, 0));
}

#[test]
fn too_late_is_asked_again_in_the_same_tick_once_and_then_tick_by_tick() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let too_late = Outcome::TooLate { at: server(1, 3_350) };
    let batch = one(ground.due(3_350));
    assert!(ground.answer(batch, 3_350, 3_351, too_late.clone()));
    let batch = one(ground.due(3_351));
    assert!(!ground.answer(batch, 3_351, 3_352, too_late));
    assert_eq!((lease.deadline(), ground.due(3_400).len()), (at(9_500), 1));
}

#[test]
fn a_renewal_by_hand_that_was_too_late_twice_is_sent_again_also_without_regular_renewals() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", Terms { renewed: false, ..TERMS });
    let (answer_to, mut answer) = manual::tests::channel();
    ground.scheduler.handle_order(Order::Renew(lease.clone(), TTL * 3, answer_to), at(100), &ground.topology);
    let too_late = Outcome::TooLate { at: server(1, 100) };
    let batch = one(ground.take_batches(100, 10));
    ground.answer(batch, 100, 110, too_late.clone());
    let batch = one(ground.take_batches(110, 10));
    ground.answer(batch, 110, 120, too_late);
    let batch = one(ground.due(200));
    ground.answer(batch, 200, 210, renewed(9_800, 205));
    assert!(matches!(answer.try_recv(), Ok(ManualOutcome::Renewed)));
}

#[test]
fn s12_a_ttl_that_cannot_be_is_told() {
    let mut ground = Ground::new();
    ground.lease("a", TERMS);
    let batch = one(ground.due(3_350));
    ground.answer(batch, 3_350, 3_360, renewed(3_000, 3_355));
    let events = ground.scheduler.take_events();
    assert!(matches!(events[..], [Event::FoundTtl { .. }]), "{events:?}");
}

#[test]
fn a_new_epoch_makes_every_lease_due_and_puts_it_in_jeopardy_until_answered() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    ground.topology = topology(2, true);
    ground.scheduler.expedite(|_| Some(Move::InDoubt));
    assert!(lease.is_in_jeopardy());
    let batch = one(ground.due(100));
    ground.answer(
        batch,
        100,
        101,
        Outcome::Renewed { found: Duration::from_millis(9_900), at: server(2, 100) },
    );
    assert!(!lease.is_in_jeopardy());
}

#[test]
fn a_node_without_connection_gets_nothing_and_its_leases_wait_in_jeopardy() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    ground.topology = topology(1, false);
    assert!(ground.due(3_350).is_empty());
    assert!(lease.is_in_jeopardy());
    ground.topology = topology(1, true);
    assert_eq!(ground.due(3_400).len(), 1);
}

#[test]
fn batches_hold_what_the_node_takes_and_the_most_urgent_go_first() {
    let mut ground = Ground::new();
    ground.lease("late", Terms { ttl: TTL * 2, ..TERMS });
    let urgent = ground.lease("urgent", TERMS);
    ground.lease("b", Terms { ttl: TTL * 2, ..TERMS });
    ground.scheduler.advance(at(6_700));
    let first = one(ground.take_batches(6_700, 1));
    assert_eq!((first.members.len(), first.members[0].owner), (2, urgent.owner));
    let rest = one(ground.take_batches(6_700, 9));
    assert_eq!(rest.members.len(), 1);
}

#[test]
fn s8_a_released_lease_is_never_submitted() {
    let mut ground = Ground::new();
    let (one, two) = (ground.lease("a", TERMS), ground.lease("b", TERMS));
    assert!(one.release() && two.release());
    ground.scheduler.handle_order(Order::Cancel(one), at(10), &ground.topology);
    assert_eq!(ground.scheduler.len(), 1);
    assert!(ground.due(3_400).is_empty(), "also when the cancel has not arrived yet");
    assert_eq!(ground.scheduler.len(), 0);
    let gone = core("c", TERMS, at(0));
    gone.release();
    ground.scheduler.handle_order(
        Order::Register(gone, TtlExpectation::new(at(0), at(1), TTL)),
        at(1),
        &ground.topology,
    );
    assert_eq!(ground.scheduler.len(), 0);
}

#[test]
fn max_hold_stops_the_renewal_and_the_lease_ends_at_its_deadline() {
    let mut ground = Ground::new();
    ground.lease("a", Terms { max_hold: Some(Duration::from_secs(2)), ..TERMS });
    assert!(ground.due(5_000).is_empty());
    ground.due(9_500);
    assert_eq!(ground.losses(), [LossReason::MaxHold]);
}

#[test]
fn a_lease_without_renewal_sits_at_its_deadline() {
    let mut ground = Ground::new();
    ground.lease("a", Terms { renewed: false, ..TERMS });
    assert!(ground.due(9_450).is_empty());
    assert!(ground.losses().is_empty());
    ground.due(9_500);
    assert_eq!(ground.losses(), [LossReason::Expired]);
}

#[test]
fn a_renewal_by_hand_asks_for_more_and_never_shortens() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let (answer_to, mut answer) = manual::tests::channel();
    ground.scheduler.handle_order(Order::Renew(lease.clone(), TTL * 3, answer_to), at(100), &ground.topology);
    let batch = one(ground.due(100));
    assert_eq!(batch.members[0].op.ttl(), Some(TTL * 3));
    ground.answer(batch, 100, 110, renewed(9_900, 105));
    assert!(matches!(answer.try_recv(), Ok(ManualOutcome::Renewed)));
    assert_eq!(lease.deadline(), at(100 + 28_500));
    let batch = one(ground.due(3_450));
    ground.answer(batch, 3_450, 3_455, renewed(26_650, 3_452));
    assert_eq!(lease.deadline(), at(28_600));
    assert!(ground.scheduler.take_events().is_empty(), "S12 knows of the longer ttl");
}

#[test]
fn s2_a_renewal_that_is_answered_after_the_deadline_changes_nothing() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(9_450));
    ground.answer(batch, 9_450, 9_501, renewed(550, 9_460));
    assert!(!lease.is_held(at(9_501)));
    assert_eq!((ground.losses(), ground.scheduler.len()), (vec![LossReason::Expired], 0));
}

#[test]
fn s2_a_renewal_that_is_answered_after_its_holder_saw_the_deadline_pass_changes_nothing() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(9_450));
    assert!(!lease.is_held(at(9_500)), "the holder's clock is ahead of the driver's last look at it");
    ground.answer(batch, 9_450, 9_499, renewed(550, 9_460));
    assert!(!lease.is_held(at(9_501)));
    assert_eq!(ground.losses(), [LossReason::Expired]);
}

#[test]
fn s2_nothing_is_sent_after_the_deadline() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", Terms { ttl: Duration::from_millis(9_990), ..TERMS });
    let too_late = Outcome::TooLate { at: server(1, 3_350) };
    let batch = one(ground.due(3_350));
    ground.answer(batch, 3_350, 3_351, too_late);
    assert!(!lease.is_held(at(9_491)), "between two ticks");
    assert!(ground.due(9_491).is_empty());
    ground.due(9_500);
    assert_eq!(ground.losses(), [LossReason::Expired]);
}

#[test]
fn max_hold_also_stops_a_renewal_that_is_ready() {
    let mut ground = Ground::new();
    ground.lease("a", Terms { max_hold: Some(Duration::from_secs(5)), ..TERMS });
    ground.topology = topology(1, false);
    assert!(ground.due(3_350).is_empty());
    ground.topology = topology(1, true);
    assert!(ground.due(5_000).is_empty());
    ground.scheduler.expedite(|_| Some(Move::WithItsLocks));
    assert!(ground.due(5_050).is_empty());
    ground.due(9_500);
    assert_eq!(ground.losses(), [LossReason::MaxHold]);
}

#[test]
fn every_request_is_answered() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let (one_to, mut first) = manual::tests::channel();
    let (two_to, mut second) = manual::tests::channel();
    ground.scheduler.handle_order(Order::Renew(lease.clone(), TTL * 3, one_to), at(100), &ground.topology);
    let batch = one(ground.due(100));
    ground.scheduler.handle_order(Order::Renew(lease.clone(), TTL * 2, two_to), at(101), &ground.topology);
    ground.answer(batch, 100, 110, renewed(9_900, 105));
    assert!(matches!(first.try_recv(), Ok(ManualOutcome::Renewed)));
    assert!(second.try_recv().is_err());
    let batch = one(ground.due(110));
    assert!(batch.members[0].op.ttl() >= Some(TTL * 2));
    ground.answer(batch, 110, 111, renewed(29_990, 110));
    assert!(matches!(second.try_recv(), Ok(ManualOutcome::Renewed)));
    assert!(lease.deadline() >= at(100 + 28_500), "never shortened");
}

#[test]
fn s12_a_lease_of_a_server_that_is_gone_is_asked_about_at_once() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    ground.scheduler.doubt(&lease);
    assert!(lease.is_in_jeopardy());
    assert_eq!(one(ground.due(50)).members.len(), 1);
}

#[test]
fn a_migrated_lease_is_due_at_once_and_not_in_jeopardy() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    ground.scheduler.expedite(|_| Some(Move::WithItsLocks));
    assert!(!lease.is_in_jeopardy());
    let batch = one(ground.due(50));
    ground.answer(batch, 50, 60, renewed(9_950, 55));
    assert!(ground.due(3_350).is_empty(), "its period begins anew");
    assert_eq!(one(ground.due(3_400)).members.len(), 1);
}

#[test]
fn s12_a_renewal_that_fails_after_its_server_changed_is_repeated_without_a_pause() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", TERMS);
    let batch = one(ground.due(3_350));
    ground.scheduler.expedite(|_| Some(Move::InDoubt));
    assert!(lease.is_in_jeopardy() && ground.due(3_400).is_empty(), "never twice in flight");
    let gone = TransportError::without_effect(ErrorKind::Unreachable, None, "gone");
    ground.answer(batch, 3_350, 3_410, Outcome::Failed(gone.clone()));
    let batch = one(ground.due(3_410));
    ground.answer(batch, 3_410, 3_420, Outcome::Failed(gone));
    assert!(ground.due(3_450).is_empty(), "once");
    assert!(lease.is_in_jeopardy());
}

#[test]
fn a_lease_without_renewal_is_in_jeopardy_too_when_its_server_is_gone() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", Terms { renewed: false, ..TERMS });
    ground.scheduler.doubt(&lease);
    assert!(lease.is_in_jeopardy());
    assert!(ground.due(50).is_empty(), "and is not asked about");
}

#[test]
fn leases_of_one_slot_share_their_ticks_where_a_node_takes_one_call_per_slot() {
    let mut ground = Ground::new();
    let node = ground.topology.nodes()[0].clone();
    ground.topology = Topology::single(9, Node { batching: Batching::BySlot, batch_leases_max: 100, ..node });
    let (mut leases, mut ticks) = (vec![], vec![]);
    for ms in (0..20_000).step_by(50) {
        if ms < 3_000 && ms % 100 == 0 {
            let lease = core(&format!("{{tag}} {ms}"), TERMS, at(ms));
            let order = Order::Register(lease.clone(), TtlExpectation::new(at(ms), at(ms), TTL));
            ground.scheduler.handle_order(order, at(ms), &ground.topology);
            lease.take(at(ms));
            leases.push(lease);
        }
        for batch in ground.due(ms) {
            ticks.push((ms, batch.members.len()));
            ground.answer(batch, ms, ms + 1, renewed(9_000, ms));
        }
    }
    assert!(leases.iter().all(|lease| lease.is_held(at(20_000))));
    let whole: Vec<_> = ticks.iter().filter(|(ms, _)| *ms > 6_500).collect();
    assert!((4..=5).contains(&whole.len()), "one tick a period: {ticks:?}");
    assert!(whole.iter().all(|(_, members)| *members == leases.len()), "{ticks:?}");
}

/// The memory of a lease in the scheduler, without its 16 bytes in the wheel, which has its own test.
#[test]
fn what_the_scheduler_keeps_of_a_lease_is_small() {
    assert!(Slab::<Record>::place_bytes() <= 64, "{} bytes", Slab::<Record>::place_bytes());
}

const WRITE: Terms = Terms { kind: HoldKind::Write, ..TERMS };

fn downgraded(ms: u64) -> Outcome {
    Outcome::Downgraded { listeners: None, at: server(1, ms) }
}

/// A write lease whose holders only read.
fn read_only(ground: &mut Ground, terms: Terms) -> Arc<LeaseCore> {
    let lease = ground.lease("a", terms);
    assert!(lease.turn_to_reading(HoldKind::Write) && lease.leave_to_readers());
    lease
}

#[test]
fn a_renewal_that_is_answered_as_a_downgrade_makes_no_reader_of_a_writer() {
    let mut ground = Ground::new();
    let lease = ground.lease("a", WRITE);
    let batch = one(ground.due(3_350));
    ground.answer(batch, 3_350, 3_351, downgraded(3_350));
    assert_eq!((lease.kind(), lease.deadline()), (HoldKind::Write, at(9_500)));
    assert!(lease.is_in_jeopardy());
}

#[test]
fn a_downgrade_that_is_answered_as_a_renewal_is_asked_again_after_a_pause() {
    let mut ground = Ground::new();
    let lease = read_only(&mut ground, WRITE);
    ground.scheduler.handle_order(Order::Downgrade(lease.clone()), at(10), &ground.topology);
    let batch = one(ground.due(10));
    assert!(matches!(batch.members[0].op, Op::Downgrade { .. }));
    ground.answer(batch, 10, 11, renewed(9_990, 10));
    assert!(lease.wants_downgrade() && ground.due(11).is_empty(), "it would be sent without end");
    let batch = one(ground.due(400));
    ground.answer(batch, 400, 401, downgraded(400));
    assert!(!lease.wants_downgrade() && !lease.is_in_jeopardy());
}

#[test]
fn a_downgrade_that_a_driver_before_had_begun_goes_out_at_once() {
    for renewed in [true, false] {
        let mut ground = Ground::new();
        let lease = read_only(&mut ground, Terms { renewed, ..WRITE });
        let mut after = Ground::new();
        let baseline = TtlExpectation::adopted(&lease, at(20));
        lease.set_ticket(None);
        after.scheduler.handle_order(Order::Register(lease, baseline), at(20), &after.topology);
        let batch = one(after.due(50));
        assert!(matches!(batch.members[0].op, Op::Downgrade { .. }));
    }
}
