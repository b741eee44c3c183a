//! Nodes come, go, move and forget who they are; who has nothing to do with it keeps its connections.

use std::{collections::BTreeMap, sync::Arc};

use leasehold::routing::slot::Slot;
use leasehold_tests::harness::{cluster::Reset, node::Node, polling::holds_within};

use crate::{
    connections::{COMPLETE, connections},
    deployment::Deployment,
    field::{Field, PATIENCE},
    moment::Moment,
    queue::alone,
    redirects::Redirects,
};

#[test]
fn l5_nodes_come_go_move_and_are_reset_and_the_others_keep_their_connections() {
    alone(|| {
        let field = Field::on(Deployment::proxied_cluster());
        keeps_all_but(&field, None, "a node came with slots and went without", come_and_go);
        keeps_all_but(&field, None, "a replica was reset, joined again and follows again", reset_a_replica);
        assert!(field.log.unreleased().is_empty(), "{:?}", field.log.unreleased());
        // What was on its way to the earlier address is repeated at the new one, where a release may find itself done.
        keeps_all_but(&field, Some(MOVED), "the address of a master has changed", change_an_address);
        let report = field.end();
        println!("topologies: {report}");
        report.assert_only(&[]);
        report.assert_nothing_shared();
        assert!(report.errors.is_empty(), "{report}");
    });
}

fn keeps_all_but(field: &Field, changed: Option<usize>, what: &str, step: fn(&Field)) {
    let (before, redirects) = (standing(field, changed), Redirects::told_by(&field.deployment));
    let began = Moment::now();
    step(field);
    field.wait_for_a_period();
    let told = (began.elapsed(), Redirects::told_by(&field.deployment) - redirects);
    println!("{what}, followed within {:?}: {:?}", told.0, told.1);
    assert_eq!(standing(field, changed), before, "{what}");
    field.leases.assert_untouched();
}

/// All connections to the masters, but for one part.
fn standing(field: &Field, but_for: Option<usize>) -> Vec<BTreeMap<u64, String>> {
    let parts = field.deployment.parts().filter(|part| Some(*part) != but_for);
    let standing: Vec<_> = parts.map(|part| connections(&field.deployment.master(part))).collect();
    assert!(standing.iter().all(|connections| connections.len() == COMPLETE), "{standing:?}");
    standing
}

fn come_and_go(field: &Field) {
    let cluster = field.deployment.cluster_itself();
    let (home, added) = (field.deployment.master(0), cluster.add_node().expect("a node"));
    move_slots(field, &added);
    let serves = || connections(&added).len() == COMPLETE;
    assert!(holds_within(PATIENCE, serves), "{:?}", connections(&added));
    field.wait_for_a_period();
    move_slots(field, &home);
    // Who has given away its last slot follows who got it.
    let left = || connections(&added).is_empty();
    assert!(holds_within(PATIENCE, left), "{:?}", connections(&added));
    cluster.forget_node(&added).expect("forgotten");
    cluster.wait_until_whole().expect("whole");
}

fn change_an_address(field: &Field) {
    let node = field.deployment.master(MOVED);
    let before = connections(&node);
    field.deployment.cluster_itself().change_address(&node).expect("another address");
    // Through the proxy at the new address, all of them, although the one at the earlier address still works.
    let are_new =
        |now: BTreeMap<u64, String>| now.len() == COMPLETE && now.keys().all(|id| !before.contains_key(id));
    assert!(holds_within(PATIENCE, || are_new(connections(&node))), "{:?}", connections(&node));
    field.recovered(MOVED, Moment::now());
}

fn reset_a_replica(field: &Field) {
    let (cluster, replica) = (field.deployment.cluster_itself(), field.deployment.replica(2));
    cluster.reset(&replica, Reset::Hard).expect("reset");
    cluster.rejoin(&replica).expect("it is a master without slots now");
    cluster.replicate(&replica, &field.deployment.master(2)).expect("a replica again");
    let left = || connections(&replica).is_empty();
    assert!(holds_within(PATIENCE, left), "{:?}", connections(&replica));
}

/// The slots of some leases of the first part.
fn move_slots(field: &Field, to: &Arc<Node>) {
    let cluster = field.deployment.cluster_itself();
    let slot = |name: &str| Slot::of(name.as_bytes()).number();
    let mut slots: Vec<_> = field.leases.of(0).take(SLOTS).map(|held| slot(held.lease.name())).collect();
    slots.sort_unstable();
    slots.dedup();
    let begun = slots.into_iter().map(|slot| cluster.begin_migration(slot, to).expect("begun"));
    let begun: Vec<_> = begun.collect();
    begun.into_iter().for_each(|migration| migration.finish().expect("finished"));
    cluster.wait_until_whole().expect("agreed");
}

/// The part whose master gets another address.
const MOVED: usize = 1;
const SLOTS: usize = 20;
