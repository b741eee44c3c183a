use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    clock::Instant,
    key::LockKey,
    owner::OwnerMint,
    routing::topology::{ClockId, Node},
    transport::{Renewal, RenewalAnswer},
};

const NODE: NodeId = NodeId(0);

fn topology(batching: Batching, most: usize) -> Topology {
    let node = Node {
        id: NODE,
        address: "n".into(),
        clock: ClockId { node: NODE, epoch: 1 },
        up_since: None,
        connected: true,
        batch_leases_max: most,
        batching,
    };
    Topology::single(1, node)
}

fn batch(tickets: std::ops::Range<u64>) -> Batch {
    let (key, mint) = (LockKey::new("", "k").unwrap(), OwnerMint::new());
    let member = |ticket| Renewal {
        key: key.clone(),
        owner: mint.mint(),
        ttl: Duration::from_secs(1),
        execute_by: Instant::default(),
        ticket,
        answer: RenewalAnswer::None,
    };
    Batch { node: NODE, members: tickets.map(member).collect() }
}

/// The tickets of what goes out when batches of these sizes come in.
fn sent(sizes: &[usize], topology: &Topology) -> Vec<Vec<u64>> {
    let (mut loads, mut next, mut sent) = (Loads::default(), 0, Vec::new());
    for size in sizes {
        let end = next + *size as u64;
        sent.extend(loads.add(batch(next..end), topology));
        assert!(loads.waiting(NODE) <= 1 && loads.waiting(NodeId(1)) == 0);
        next = end;
    }
    sent.extend(loads.into_batches());
    sent.iter().map(|batch| batch.members.iter().map(|member| member.ticket).collect()).collect()
}

proptest! {
    #[test]
    fn as_few_batches_as_fit_all_leases_once_and_in_order(
        most in 1..20usize, sizes in prop::collection::vec(1..20usize, 0..20),
    ) {
        let sizes: Vec<usize> = sizes.into_iter().map(|size| size.min(most)).collect();
        let sent = sent(&sizes, &topology(Batching::AcrossSlots, most));
        let all: usize = sizes.iter().sum();
        prop_assert_eq!(sent.concat(), (0..all as u64).collect::<Vec<_>>());
        prop_assert_eq!(sent.len(), all.div_ceil(most));
        prop_assert!(sent.iter().all(|batch| batch.len() <= most));
    }
}

#[test]
fn what_goes_slot_by_slot_stays_as_it_is() {
    assert_eq!(sent(&[2, 1, 2], &topology(Batching::BySlot, 4)), [vec![0, 1], vec![2], vec![3, 4]]);
}

#[test]
fn a_node_that_has_left_gets_its_batch_as_it_is() {
    let gone = Batch { node: NodeId(7), ..batch(0..2) };
    let mut loads = Loads::default();
    assert_eq!(
        loads.add(gone, &topology(Batching::AcrossSlots, 4)).map(|batch| batch.members.len()),
        Some(2)
    );
}
