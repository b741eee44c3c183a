//! Permits that expire where slots move and masters hand over.

use std::num::NonZeroU16;

use leasehold::transport::{Call, ErrorKind, HoldKind, Outcome, TransportError};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{
    cluster::RedisCluster,
    node::Node,
    sentinel::{RedisSentinel, SERVICE},
    server_version::ServerVersion,
};

use crate::lanes::Lanes;

const TWO: HoldKind = HoldKind::Permits(NonZeroU16::new(2).expect("above zero"));

fn deadlines(name: &str) -> String {
    format!("{{{name}}}:timeout")
}

/// The permits that are available and those that are held.
fn stored(node: &Node, name: &str) -> (Option<String>, Option<i64>) {
    let available = node.command(&["GET", name]).expect("a reply").text();
    (available, node.command(&["ZCARD", &deadlines(name)]).expect("a reply").integer())
}

/// Nothing was done, and the call may be repeated.
fn is_refused_for_now(reply: &Result<Outcome, TransportError>) -> bool {
    reply.as_ref().is_err_and(|error| error.kind == ErrorKind::NotReady)
}

/// While keys are at two nodes: a renewal has one key and goes on. The others have two, and wait.
async fn check(lanes: &Lanes, held: &Call, is_split: bool) {
    assert!(lanes.is_renewed(&[held]).await);
    let fresh = lanes.wish_for(TWO, held.key.on_server());
    let granted = lanes.acquire(&fresh).await;
    let released = lanes.release(&fresh).await;
    if is_split {
        assert!(is_refused_for_now(&granted), "{granted:?}");
        assert!(is_refused_for_now(&released), "{released:?}");
        return;
    }
    assert!(matches!(granted, Ok(Outcome::Granted { .. })), "{granted:?}");
    assert!(matches!(released, Ok(Outcome::Released { .. })), "{released:?}");
}

/// Every place at which a move can be, on every version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_permits_live_while_their_slot_is_moved() {
    for version in ServerVersion::ALL {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
        for moved in 0..4 {
            println!("{version:?}, {moved:02b}");
            let name = format!("moves{moved}");
            let slot = lanes.wish_for(TWO, &name).key.slot().number();
            let source = cluster.master_of(slot).expect("a master");
            assert!(source.command(&["SET", &name, "4"]).expect("a reply").is_ok());
            let held = lanes.held_for(TWO, &name).await;
            let masters = cluster.masters().expect("masters");
            let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
            let migration = cluster.begin_migration(slot, target).expect("begun");
            for (place, key) in [name.clone(), deadlines(&name)].iter().enumerate() {
                if moved & (1 << place) != 0 {
                    migration.move_key(key.as_bytes()).expect("moved");
                }
            }
            check(&lanes, &held, matches!(moved, 1 | 2)).await;
            migration.move_keys().expect("moved");
            migration.finish().expect("finished");
            lanes.until_renewed(&[&held]).await;
            check(&lanes, &held, false).await;
            assert_eq!(stored(target, &name), (Some("2".into()), Some(2)), "{moved}");
            assert!(lanes.is_released(&held).await);
            assert_eq!(stored(target, &name), (Some("4".into()), Some(0)), "{moved}");
        }
    }
}

/// A semaphore without holds is one key. While its slot is on the way, a call that has two keys is refused wherever the
/// one is, so no permit is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_semaphore_grants_no_permit_while_its_slot_is_moved_and_grants_afterwards() {
    for version in ServerVersion::ALL {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
        let idle = lanes.wish_for(TWO, "idle");
        let slot = idle.key.slot().number();
        let source = cluster.master_of(slot).expect("a master");
        assert!(source.command(&["SET", "idle", "4"]).expect("a reply").is_ok());
        let masters = cluster.masters().expect("masters");
        let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
        let migration = cluster.begin_migration(slot, target).expect("begun");
        for is_moved in [false, true] {
            if is_moved {
                migration.move_key(b"idle").expect("moved");
            }
            let reply = lanes.acquire(&lanes.wish_for(TWO, "idle")).await;
            assert!(is_refused_for_now(&reply), "{version:?}, {is_moved}: {reply:?}");
        }
        migration.move_keys().expect("moved");
        migration.finish().expect("finished");
        assert_eq!(stored(target, "idle"), (Some("4".into()), Some(0)), "{version:?}: nothing was done");
        let held = lanes.held_for(TWO, "idle").await;
        assert_eq!(stored(target, "idle"), (Some("2".into()), Some(2)), "{version:?}");
        assert!(lanes.is_released(&held).await);
    }
}

/// Both keys are on the replica that becomes the master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_permits_live_through_a_failover() {
    let deployment = RedisSentinel::start().expect("servers");
    let addresses = deployment.sentinel_addresses();
    let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
    let lanes = Lanes::open(RedisConfig::sentinel(addresses, SERVICE)).await;
    let old = deployment.master().expect("a master");
    assert!(old.command(&["SET", "p", "4"]).expect("a reply").is_ok());
    let held = [lanes.held_for(TWO, "p").await, lanes.held_for(TWO, "p").await];
    let copied = old.command(&["WAIT", "1", "5000"]).expect("a reply");
    assert!(copied.integer() > Some(0), "{copied:?}");
    let port = deployment.master_port().expect("a master");
    deployment.failover().expect("asked for");
    deployment.wait_for_switch(port).expect("switched");
    lanes.until_renewed(&[&held[0], &held[1]]).await;
    let busy = lanes.acquire(&lanes.wish_for(TWO, "p")).await;
    assert!(matches!(busy, Ok(Outcome::Busy { .. })), "{busy:?}");
    for hold in &held {
        assert!(lanes.is_released(hold).await);
        let again = lanes.release(hold).await;
        assert!(matches!(again, Ok(Outcome::NotYours { .. })), "{again:?}");
    }
    assert_eq!(stored(&deployment.master().expect("a master"), "p"), (Some("4".into()), Some(0)));
}
