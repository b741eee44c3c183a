//! Nodes come, go, move and forget who they are; who has nothing to do with it keeps its connections.

use std::{collections::BTreeMap, sync::Arc};

use leasehold::routing::slot::Slot;
use leasehold_tests::harness::{cluster::Reset, node::Node, polling::holds_within};

use crate::{
    connections::{COMPLETE, connections},
    context::{Context, PATIENCE},
    deployment::Deployment,
    moment::Moment,
    queue::alone,
    redirects::Redirects,
};

#[test]
fn l5_nodes_come_go_move_and_are_reset_and_the_others_keep_their_connections() {
    alone(|| {
        let context = Context::on(Deployment::proxied_cluster());
        keeps_all_but(&context, None, "a node came with slots and went without", come_and_go);
        keeps_all_but(&context, None, "a replica was reset, joined again and follows again", reset_a_replica);
        assert!(context.log.unreleased().is_empty(), "{:?}", context.log.unreleased());
        // What was on its way to the earlier address is repeated at the new one, where a release may find itself done.
        keeps_all_but(&context, Some(MOVED), "the address of a master has changed", change_an_address);
        let report = context.end();
        println!("topologies: {report}");
        report.assert_only(&[]);
        report.assert_nothing_shared();
        assert!(report.errors.is_empty(), "{report}");
    });
}

fn keeps_all_but(context: &Context, changed: Option<usize>, what: &str, step: fn(&Context)) {
    let (before, redirects) = (standing(context, changed), Redirects::told_by(&context.deployment));
    let began = Moment::now();
    step(context);
    context.wait_for_a_period();
    let told = (began.elapsed(), Redirects::told_by(&context.deployment) - redirects);
    println!("{what}, followed within {:?}: {:?}", told.0, told.1);
    assert_eq!(standing(context, changed), before, "{what}");
    context.leases.assert_untouched();
}

/// All connections to the masters, but for one part.
fn standing(context: &Context, but_for: Option<usize>) -> Vec<BTreeMap<u64, String>> {
    let parts = context.deployment.parts().filter(|part| Some(*part) != but_for);
    let standing: Vec<_> = parts.map(|part| connections(&context.deployment.master(part))).collect();
    assert!(standing.iter().all(|connections| connections.len() == COMPLETE), "{standing:?}");
    standing
}

fn come_and_go(context: &Context) {
    let cluster = context.deployment.cluster_itself();
    let (home, added) = (context.deployment.master(0), cluster.add_node().expect("a node"));
    move_slots(context, &added);
    let serves = || connections(&added).len() == COMPLETE;
    assert!(holds_within(PATIENCE, serves), "{:?}", connections(&added));
    context.wait_for_a_period();
    move_slots(context, &home);
    // Who has given away its last slot follows who got it.
    let left = || connections(&added).is_empty();
    assert!(holds_within(PATIENCE, left), "{:?}", connections(&added));
    cluster.forget_node(&added).expect("forgotten");
    cluster.wait_until_whole().expect("whole");
}

fn change_an_address(context: &Context) {
    let node = context.deployment.master(MOVED);
    let before = connections(&node);
    context.deployment.cluster_itself().change_address(&node).expect("another address");
    // Through the proxy at the new address, all of them, although the one at the earlier address still works.
    let are_new =
        |now: BTreeMap<u64, String>| now.len() == COMPLETE && now.keys().all(|id| !before.contains_key(id));
    assert!(holds_within(PATIENCE, || are_new(connections(&node))), "{:?}", connections(&node));
    context.recovered(MOVED, Moment::now());
}

fn reset_a_replica(context: &Context) {
    let (cluster, replica) = (context.deployment.cluster_itself(), context.deployment.replica(2));
    cluster.reset(&replica, Reset::Hard).expect("reset");
    cluster.rejoin(&replica).expect("it is a master without slots now");
    cluster.replicate(&replica, &context.deployment.master(2)).expect("a replica again");
    let left = || connections(&replica).is_empty();
    assert!(holds_within(PATIENCE, left), "{:?}", connections(&replica));
}

/// The slots of some leases of the first part.
fn move_slots(context: &Context, to: &Arc<Node>) {
    let cluster = context.deployment.cluster_itself();
    let slot = |name: &str| Slot::of(name.as_bytes()).number();
    let mut slots: Vec<_> = context.leases.of(0).take(SLOTS).map(|held| slot(held.lease.name())).collect();
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
