//! Groups while a slot of their node is on its way to another master: half of its keys have moved.

use leasehold::transport::{Call, Outcome, Watch};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{cluster::RedisCluster, server_version::ServerVersion};

use crate::{
    groups::{
        assert_granted, assert_released, call_together, learn, names, release_together, scripts, wishes,
    },
    lanes::Lanes,
};

/// Locks in the moving slot, and locks of the same master in other slots.
struct Names {
    moving: Vec<String>,
    staying: Vec<String>,
}

impl Names {
    fn all(&self) -> Vec<String> {
        [self.moving.clone(), self.staying.clone()].concat()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_groups_are_answered_rightly_while_a_slot_is_on_its_way() {
    for version in
        [ServerVersion::Debian, ServerVersion::Redis62, ServerVersion::Redis82, ServerVersion::Valkey91]
    {
        println!("{version:?}");
        move_under_groups(version).await;
    }
}

async fn move_under_groups(version: ServerVersion) {
    let cluster =
        RedisCluster::builder().version(version).masters(2).replicas_each(0).start().expect("a cluster");
    let config = RedisConfig::from_url(&cluster.url()).expect("a url");
    let [lanes, others] = [Lanes::open(config.clone()).await, Lanes::open(config).await];
    for lanes in [&lanes, &others] {
        learn(lanes).await;
        learn(lanes).await;
    }
    let slot = cluster.slot_of("{m}").expect("a slot");
    let masters = cluster.masters().expect("masters");
    let source = cluster.master_of(slot).expect("a master");
    let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
    let at_source = |name: &String| {
        let slot = cluster.slot_of(name).expect("a slot");
        cluster.master_of(slot).is_ok_and(|node| node.port() == source.port())
    };
    let staying = names("stays", 60).into_iter().filter(at_source).collect();
    let names = Names { moving: names("{m}", 30), staying };

    let held = call_together(&lanes, wishes(&lanes, &names.all())).await;
    assert_granted(&held);
    let migration = cluster.begin_migration(slot, target).expect("begun");
    for name in names.moving.iter().step_by(2) {
        migration.move_key(name.as_bytes()).expect("moved");
    }
    // What is held is told so, wherever it is.
    for call in call_together(&others, wishes(&others, &names.all())).await {
        assert!(matches!(call.outcome, Outcome::Busy { .. }), "{call:?}");
    }
    // Asking again for one's own hold is granted, and counts once.
    let again = held.iter().map(|hold| crate::lanes::call(hold, hold.op)).collect();
    assert_granted(&call_together(&lanes, again).await);
    let watches = watch(&others, &held).await;
    assert_released(&release_together(&lanes, &held).await);
    assert_told(watches).await;
    // All are free now; those of the slot are made at the target.
    let next = call_together(&others, wishes(&others, &names.all())).await;
    assert_granted(&next);
    for call in call_together(&lanes, wishes(&lanes, &names.all())).await {
        assert!(matches!(call.outcome, Outcome::Busy { .. }), "{call:?}");
    }
    migration.finish().expect("finished");
    for call in call_together(&lanes, wishes(&lanes, &names.all())).await {
        assert!(matches!(call.outcome, Outcome::Busy { .. }), "{call:?}");
    }
    let watches = watch(&lanes, &next).await;
    assert_released(&release_together(&others, &next).await);
    assert_told(watches).await;
    go_on(&lanes, &names, &masters, version).await;
    for master in &masters {
        let left = master.command(&["KEYS", "*"]).expect("a reply").texts();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Each node gets one script for its acquires and one for its releases again.
async fn go_on(
    lanes: &Lanes,
    names: &Names,
    masters: &[std::sync::Arc<leasehold_tests::harness::node::Node>],
    version: ServerVersion,
) {
    let mut cost = i64::MAX;
    // The topology follows the first redirect.
    for _ in 0..100 {
        let before = scripts(masters);
        let held = call_together(lanes, wishes(lanes, &names.all())).await;
        assert_granted(&held);
        assert_released(&release_together(lanes, &held).await);
        cost = scripts(masters) - before;
        if cost == 4 || version == ServerVersion::Redis62 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{version:?}: {cost} scripts after the move");
}

async fn watch(lanes: &Lanes, holds: &[Call]) -> Vec<(Watch, u64)> {
    let mut watches = Vec::new();
    for hold in holds {
        let mut watch = lanes.calls.watch(&hold.key);
        while !watch.observe().in_force {
            watch.changed().await;
        }
        let notices = watch.observe().notices;
        watches.push((watch, notices));
    }
    watches
}

async fn assert_told(watches: Vec<(Watch, u64)>) {
    for (place, (mut watch, before)) in watches.into_iter().enumerate() {
        let told = async {
            while watch.observe().notices == before {
                watch.changed().await;
            }
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(20), told).await;
        assert!(told.is_ok(), "watch {place} was told nothing");
    }
}
