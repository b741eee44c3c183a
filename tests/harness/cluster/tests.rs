use super::*;
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
