use super::*;
use crate::harness::polling::holds_within;
use crate::harness::raw_client::RawClient;
use std::time::Instant;

/// `foo` is in slot 12182.
const SLOT: u16 = 12_182;

fn get(node: &Node, key: &str) -> String {
    let reply = node.command(&["GET", key]).expect("a reply");
    reply.text().or_else(|| reply.error().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn it_forms_moves_a_slot_with_its_key_and_survives_the_loss_of_a_master() {
    let begun = Instant::now();
    let cluster = RedisCluster::start().expect("a cluster");
    println!("formed within {:?}", begun.elapsed());
    let masters = cluster.masters().expect("masters");
    assert_eq!((masters.len(), cluster.nodes().len()), (3, 6));
    let (source, target) = (cluster.master_of(SLOT).expect("a master"), masters[0].clone());
    source.command(&["SET", "foo", "1"]).expect("a reply");
    let migration = cluster.begin_migration(SLOT, &target).expect("begun");
    assert_eq!(get(&source, "foo"), "1");
    assert_eq!(migration.move_keys().expect("moved"), 1);
    assert_eq!(get(&source, "foo"), format!("ASK {SLOT} 127.0.0.1:{}", target.port()));
    migration.finish().expect("finished");
    cluster.wait_until_whole().expect("agreed");
    assert_eq!(get(&target, "foo"), "1");
    assert_eq!(get(&source, "foo"), format!("MOVED {SLOT} 127.0.0.1:{}", target.port()));

    // No reply waits for replicas: what is not replicated yet would be lost with its master.
    let mut client = target.client().expect("a connection");
    client.command(&["SET", "foo", "2"]).expect("a reply");
    assert_eq!(client.command(&["WAIT", "1", "1500"]).expect("a reply").integer(), Some(1));
    let begun = Instant::now();
    target.kill().expect("killed");
    let promoted = cluster.wait_for_promotion(SLOT, target.port()).expect("promoted");
    println!("promoted within {:?}", begun.elapsed());
    assert_eq!(get(&promoted, "foo"), "2");
    target.restart().expect("restarted");
    cluster.wait_until_whole().expect("whole");
    cluster.failover(&target, Failover::Plain).expect("asked");
    let again = cluster.wait_for_promotion(SLOT, promoted.port()).expect("promoted");
    assert_eq!(again.port(), target.port());
}

#[test]
fn a_proxied_cluster_names_nothing_but_proxies_and_replicates_through_them() {
    let cluster = RedisCluster::builder().proxied().start().expect("a cluster");
    let (node, replica) =
        (cluster.master_of(SLOT).expect("a master"), cluster.replica_of(SLOT).expect("one"));
    assert_ne!(node.port(), node.own_port());
    assert_eq!(replica.info("replication", "master_port").expect("an answer"), Some(node.port().to_string()));
    let proxy = node.proxy().expect("a proxy");
    let mut client = RawClient::connect(node.port()).expect("a connection");
    client.command(&["CLIENT", "SETNAME", "ours"]).expect("a reply");
    assert!(client.command(&["SET", "foo", &"x".repeat(100_000)]).expect("a reply").is_ok());
    let other = cluster.masters().expect("masters").into_iter().find(|other| other.port() != node.port());
    assert_eq!(get(&other.expect("another"), "foo"), format!("MOVED {SLOT} 127.0.0.1:{}", node.port()));

    // What strikes clients does not strike replication.
    proxy.black_hole(true);
    proxy.cut_all();
    let mut past = node.client().expect("a connection");
    past.command(&["SET", "foo", "2"]).expect("a reply");
    assert_eq!(past.command(&["WAIT", "1", "1500"]).expect("a reply").integer(), Some(1));
    assert!(client.command(&["GET", "foo"]).is_err());
    proxy.black_hole(false);
    assert_eq!(proxy.commands_of(Some("ours")).get("SET"), Some(&1));

    let old = node.port();
    let new = cluster.change_address(&node).expect("an address");
    assert_ne!(new, old);
    assert_eq!(cluster.master_of(SLOT).expect("a master").port(), new);
    let added = cluster.add_node().expect("a node");
    cluster.migrate_slot(SLOT, &added).expect("migrated");
    assert_eq!(get(&added, "foo"), "2");
    cluster.migrate_slot(SLOT, &node).expect("migrated");
    cluster.forget_node(&added).expect("forgotten");
    cluster.wait_until_whole().expect("whole");
    cluster.reset(&replica, Reset::Hard).expect("reset");
    cluster.rejoin(&replica).expect("joined");
    cluster.replicate(&replica, &node).expect("attached");
}

#[test]
fn a_stopped_master_is_replaced_and_follows_when_it_goes_on_and_a_lost_majority_heals() {
    let cluster = RedisCluster::builder().password("hunter2-pw").start().expect("a cluster");
    assert_eq!(cluster.slot_of("{foo}:bar").expect("a slot"), SLOT);
    let stopped = cluster.master_of(SLOT).expect("a master");
    stopped.stop().expect("stopped");
    let promoted = cluster.wait_for_promotion(SLOT, stopped.port()).expect("promoted");
    stopped.cont().expect("continued");
    cluster.wait_until_whole().expect("whole");
    assert_eq!(stopped.info("replication", "role").expect("an answer").as_deref(), Some("slave"));
    assert_eq!(cluster.master_of(SLOT).expect("a master").port(), promoted.port());

    let others: Vec<_> = cluster.nodes().into_iter().filter(|node| node.port() != promoted.port()).collect();
    others.iter().try_for_each(|node| node.kill()).expect("killed");
    let fails = || !serves(&promoted);
    assert!(holds_within(PROMOTED_WITHIN, fails), "it serves without a majority");
    others.iter().try_for_each(|node| node.restart()).expect("restarted");
    cluster.wait_until_whole().expect("whole");
}
