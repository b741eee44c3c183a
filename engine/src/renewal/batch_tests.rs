//! Tests the ready queue against a map that is sorted by hand.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    clock::Instant,
    key::LockKey,
    owner::OwnerMint,
    routing::{slot::Slot, topology::ClockId},
    transport::{self, Call, HoldKind},
};

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}

fn ready(deadline: u64, ticket: u64, number: u16) -> Ready {
    Ready::new(Instant::from_nanos(deadline), ticket, slot(number))
}

fn topology(batching: Batching, most: usize) -> Topology {
    let id = NodeId(0);
    let node = Node {
        id,
        address: "n".into(),
        clock: ClockId { node: id, epoch: 1 },
        up_since: None,
        run_id: None,
        connected: true,
        batch_leases_max: most,
        batching,
        round_trip: None,
    };
    Topology::single(1, node)
}

fn member(ticket: u64) -> Call {
    let (key, owner) = (LockKey::new("", "k").unwrap(), OwnerMint::new().mint());
    let op = transport::Op::Renew { ttl: Duration::from_secs(1) };
    Call::new(key, HoldKind::Exclusive, op, owner, Instant::default()).with_ticket(ticket)
}

fn batches(queue: &mut ReadyQueue, topology: &Topology) -> Vec<Vec<u64>> {
    queue.regroup(topology, |_| true);
    let mut batches = Vec::new();
    loop {
        let batch = queue.pop_batch(&topology.nodes()[0], |ready| Some(member(ready.ticket)));
        if batch.members.is_empty() {
            return batches;
        }
        batches.push(batch.members.iter().map(|member| member.ticket).collect());
    }
}

#[test]
fn the_slot_of_the_most_urgent_lease_goes_first_and_whole() {
    let mut queue = ReadyQueue::default();
    for (deadline, ticket, number) in [(5, 1, 7), (1, 2, 9), (6, 3, 9), (2, 4, 7), (3, 5, 8)] {
        queue.push(ready(deadline, ticket, number), &topology(Batching::BySlot, 4));
    }
    assert_eq!(batches(&mut queue, &topology(Batching::BySlot, 4)), [vec![2, 3, 4, 1], vec![5]]);
    for (deadline, ticket, number) in [(5, 1, 7), (1, 2, 9), (6, 3, 9), (2, 4, 7), (3, 5, 8)] {
        queue.push(ready(deadline, ticket, number), &topology(Batching::AcrossSlots, 4));
    }
    assert_eq!(batches(&mut queue, &topology(Batching::AcrossSlots, 4)), [vec![2, 4, 5, 1], vec![3]]);
}

#[test]
fn a_slot_that_does_not_fit_goes_on_in_the_next_batch() {
    let mut queue = ReadyQueue::default();
    let topology = topology(Batching::BySlot, 2);
    for ticket in 0..5 {
        queue.push(ready(10 + ticket, ticket, 3), &topology);
    }
    assert_eq!(batches(&mut queue, &topology), [vec![0, 1], vec![2, 3], vec![4]]);
}

#[derive(Clone, Debug)]
enum Op {
    Push { deadline: u64, number: u16 },
    Pop,
    Regroup(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..50u64, 0..6u16).prop_map(|(deadline, number)| Op::Push { deadline, number }),
        2 => Just(Op::Pop),
        1 => any::<bool>().prop_map(Op::Regroup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn nothing_is_lost_or_doubled_and_the_most_urgent_lease_is_always_the_first(
        ops in prop::collection::vec(op(), 1..120), most in 1..6usize
    ) {
        let (mut queue, mut model) = (ReadyQueue::default(), BTreeMap::new());
        let (mut by_slot, mut epoch) = (true, 1u64);
        for (ticket, op) in (0..).zip(ops) {
            let batching = if by_slot { Batching::BySlot } else { Batching::AcrossSlots };
            let now = topology(batching, most);
            let now = Topology::new(epoch, now.nodes().to_vec(), vec![crate::routing::topology::SlotRange {
                first: slot(0), last: slot(100), node: NodeId(0),
            }]);
            match op {
                Op::Push { deadline, number } => {
                    queue.push(ready(deadline, ticket, number), &now);
                    model.insert(ticket, (deadline, number));
                }
                Op::Regroup(other) => (by_slot, epoch) = (other, epoch + 1),
                Op::Pop => {
                    queue.regroup(&now, |_| true);
                    let batch = queue.pop_batch(&now.nodes()[0], |ready| Some(member(ready.ticket)));
                    let taken: Vec<_> = batch.members.iter().map(|member| model.remove(&member.ticket).unwrap()).collect();
                    prop_assert_eq!(taken.len(), most.min(taken.len() + model.len()));
                    if let Some(first) = taken.first() {
                        prop_assert!(model.values().all(|other| other.0 >= first.0));
                    }
                    // The leases of a slot are adjacent.
                    let mut slots: Vec<_> = taken.iter().map(|(_, number)| *number).collect();
                    slots.dedup();
                    let runs = slots.len();
                    slots.sort_unstable();
                    slots.dedup();
                    prop_assert!(!by_slot || runs == slots.len());
                }
            }
        }
    }
}
