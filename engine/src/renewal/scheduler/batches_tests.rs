//! Tests batches against a list that is sorted by hand.

use std::sync::Arc;

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::*;
use crate::{
    lease::{
        shared::{Terms, tests::core},
        state::LossReason,
    },
    metrics::{LabelSet, RenewalOutcome},
    renewal::{inbox::Order, manual, ttl_check::TtlExpectation},
    routing::{
        moves::Moves,
        slot::Slot,
        topology::{Batching, ClockId, SlotRange},
    },
};

const TTL: Duration = Duration::from_secs(10);
const TERMS: Terms = Terms {
    kind: crate::transport::HoldKind::Exclusive,
    ttl: TTL,
    renewed: true,
    max_hold: None,
    labels: LabelSet::DEFAULT,
};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn node(connected: bool, most: usize) -> Node {
    let id = NodeId(0);
    Node {
        id,
        address: "n".into(),
        clock: ClockId { node: id, epoch: 1 },
        up_since: None,
        run_id: None,
        connected,
        batch_leases_max: most,
        batching: Batching::AcrossSlots,
        round_trip: None,
    }
}

struct Ground {
    scheduler: Scheduler,
    topology: Topology,
    counts: BatchOutcomes,
}

impl Ground {
    fn new(most: usize) -> Self {
        let topology = Topology::single(1, node(true, most));
        Self {
            scheduler: Scheduler::new(at(0), Duration::from_secs(1)),
            topology,
            counts: BatchOutcomes::default(),
        }
    }

    /// A lease that was granted by a command sent at `ms`, and taken.
    fn lease(&mut self, name: &str, ms: u64) -> Arc<LeaseCore> {
        let lease = core(name, TERMS, at(ms));
        lease.take(at(ms));
        let order = Order::Register(lease.clone(), TtlExpectation::new(at(ms), at(ms + 1), TTL));
        self.scheduler.handle_order(order, at(ms), &self.topology);
        lease
    }

    fn take_batches(&mut self, ms: u64, free: usize) -> Vec<Batch> {
        self.scheduler.take_batches(at(ms), &self.topology, |_| free, &mut self.counts)
    }

    fn become_ready(&mut self, ms: u64) {
        self.scheduler.advance(at(ms));
        assert!(self.take_batches(ms, 0).is_empty());
    }

    fn set_node(&mut self, node: Node) {
        self.topology = Topology::single(self.topology.epoch() + 1, node);
    }

    fn unreachable(&self) -> u64 {
        let is_unreachable = |outcome| outcome == RenewalOutcome::Failed(ErrorKind::Unreachable);
        self.counts.outcomes.iter().filter(|(_, one, _)| is_unreachable(*one)).map(|(.., count)| count).sum()
    }
}

proptest! {
    #[test]
    fn the_earliest_deadlines_go_first_in_full_batches(
        sent in prop::collection::vec(0..3_000u64, 1..200), most in 1..30usize, free in 1..5usize,
    ) {
        let mut ground = Ground::new(most);
        let mut sent = sent;
        sent.sort_unstable();
        let leases: Vec<_> =
            sent.iter().enumerate().map(|(number, ms)| ground.lease(&format!("lease {number}"), *ms)).collect();
        ground.become_ready(8_000);
        let batches = ground.take_batches(8_000, free);
        let sizes: Vec<_> = batches.iter().map(|batch| batch.members.len()).collect();
        let all = leases.len().min(most * free);
        prop_assert_eq!(sizes.iter().sum::<usize>(), all);
        prop_assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == most), "{:?}", sizes);
        let deadline = |member: &Call| {
            leases.iter().find(|lease| lease.owner == member.owner).expect("one of them").deadline()
        };
        let gone: Vec<_> = batches.iter().flat_map(|batch| &batch.members).map(deadline).collect();
        let mut due: Vec<_> = leases.iter().map(|lease| lease.deadline()).collect();
        due.sort_unstable();
        prop_assert_eq!(gone, &due[..all]);
    }
}

#[test]
fn leases_with_many_permits_go_out_in_smaller_batches() {
    let mut ground = Ground::new(100);
    let kind = crate::transport::HoldKind::Permits(6_000.try_into().expect("not 0"));
    for number in 0..5 {
        let lease = core(&format!("lease {number}"), Terms { kind, ..TERMS }, at(0));
        lease.take(at(0));
        let order = Order::Register(lease, TtlExpectation::new(at(0), at(1), TTL));
        ground.scheduler.handle_order(order, at(0), &ground.topology);
    }
    ground.scheduler.advance(at(3_400));
    let sizes: Vec<_> = ground.take_batches(3_400, 10).iter().map(|batch| batch.members.len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn a_renewal_without_a_connected_node_counts_once_for_each_due_time() {
    let mut ground = Ground::new(100);
    let leases: Vec<_> = (0..20).map(|number| ground.lease(&format!("lease {number}"), 0)).collect();
    ground.set_node(node(false, 100));
    for ms in (3_350..5_000).step_by(50) {
        ground.become_ready(ms);
        ground.set_node(node(false, 100)); // a new epoch each time, as after a failed attempt to connect
    }
    assert_eq!((ground.unreachable(), ground.counts.failed), (20, 20));
    assert!(leases.iter().all(|lease| lease.is_in_jeopardy()));
    ground.set_node(node(true, 100));
    let batch = ground.take_batches(5_000, 1).remove(0);
    let failed = |member: Call| {
        let loading = TransportError::without_effect(ErrorKind::NotReady, None, "loading");
        member.answered(crate::transport::Outcome::Failed(loading))
    };
    let answers: Vec<_> = batch.members.into_iter().map(failed).collect();
    ground.scheduler.handle_answers(&answers, at(5_000), at(5_010), &ground.topology, &mut ground.counts);
    ground.set_node(node(false, 100));
    ground.become_ready(6_000);
    assert_eq!((ground.unreachable(), ground.counts.failed), (40, 60));
}

#[test]
fn tickets_of_leases_that_are_gone_do_not_stay_in_the_queue() {
    let mut ground = Ground::new(100);
    ground.topology = Topology::new(2, vec![node(true, 100)], Vec::new()); // no slot has a node
    const LEASES: usize = 10 * GONE_MIN;
    let leases: Vec<_> = (0..LEASES).map(|number| ground.lease(&format!("lease {number}"), 0)).collect();
    ground.become_ready(3_400);
    assert_eq!(ground.scheduler.ready.len(), LEASES);
    for (number, lease) in leases.iter().enumerate() {
        lease.release();
        ground.scheduler.handle_order(Order::Cancel(lease.clone()), at(3_400), &ground.topology);
        ground.become_ready(3_400);
        let left = LEASES - number - 1;
        assert!(
            ground.scheduler.ready.len() <= 2 * left + GONE_MIN,
            "{} of {left}",
            ground.scheduler.ready.len()
        );
    }
}

#[test]
fn a_lease_that_waits_for_a_node_goes_out_when_its_slot_has_one() {
    let mut ground = Ground::new(100);
    let node = node(true, 100);
    ground.topology = Topology::new(2, vec![node.clone()], Vec::new());
    ground.lease("a", 0);
    ground.become_ready(3_400);
    let slot = |number| Slot::from_number(number).expect("a slot");
    let all = SlotRange { first: slot(0), last: slot(16_383), node: node.id };
    ground.topology = Topology::new(3, vec![node], vec![all]);
    assert_eq!(ground.take_batches(3_450, 1)[0].members.len(), 1);
}

#[test]
fn an_order_for_a_lease_of_an_earlier_driver_touches_no_other_lease() {
    let earlier = Ground::new(100).lease("a", 0);
    let mut ground = Ground::new(100);
    let present = ground.lease("b", 0);
    assert_eq!((earlier.ticket(), present.ticket()), (Some(0), Some(0)));
    earlier.lose(LossReason::Expired);
    for order in [Order::Cancel(earlier.clone()), Order::Taken(earlier.clone())] {
        ground.scheduler.handle_order(order, at(10), &ground.topology);
    }
    ground.scheduler.doubt(&earlier);
    assert!(ground.take_batches(10, 1).is_empty() && !present.is_in_jeopardy());
    ground.become_ready(3_400);
    assert_eq!(ground.take_batches(3_400, 1)[0].members.len(), 1, "it is renewed when it is due");
}

#[test]
fn a_renewal_by_hand_that_comes_before_its_lease_is_registered_again_is_not_told_released() {
    let earlier = Ground::new(100).lease("a", 0);
    let mut ground = Ground::new(100);
    let (answer_to, mut answer) = manual::tests::channel();
    let order = Order::Renew(earlier.clone(), TTL, answer_to);
    earlier.set_ticket(None);
    ground.scheduler.handle_order(order, at(10), &ground.topology);
    assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}

#[test]
fn a_lease_that_was_ready_before_any_topology_goes_out_with_the_first_whatever_its_epoch() {
    let mut ground = Ground::new(100);
    ground.topology = Topology::default();
    ground.lease("a", 0);
    ground.become_ready(3_400);
    let first = Topology::single(ground.topology.epoch(), node(true, 100));
    ground.scheduler.handle_moves(&Moves::between(&ground.topology, &first));
    ground.topology = first;
    assert_eq!(ground.take_batches(3_450, 1).iter().map(|batch| batch.members.len()).sum::<usize>(), 1);
}
