//! Twenty slots with everything on them move to another master and back.

use std::{ops::RangeInclusive, sync::Arc, thread};

use leasehold_redis::NoticeKind;
use leasehold_tests::harness::{
    cluster::{RedisCluster, SlotMigration},
    node::Node,
    server_version::ServerVersion,
};

use crate::{
    deployment::{CROWDED, Deployment},
    field::{Field, LEASES},
    length::{dwell, rounds},
    moment::Moment,
    queue::turn,
    redirects::Redirects,
};

#[test]
fn l5_slots_move_key_by_key_on_redis_7_0_and_nobody_notices() {
    move_there_and_back(ServerVersion::Debian, key_by_key);
}

#[test]
fn l5_slots_move_key_by_key_on_redis_8_2_and_nobody_notices() {
    move_there_and_back(ServerVersion::Redis82, key_by_key);
}

/// Renewals go slot by slot, and notices are of the classic kind.
#[test]
fn l5_slots_move_key_by_key_on_redis_6_2_and_nobody_notices() {
    move_there_and_back(ServerVersion::Redis62, key_by_key);
}

#[test]
fn l5_slots_move_at_once_on_valkey_9_1_and_nobody_notices() {
    move_there_and_back(ServerVersion::Valkey91, at_once);
}

fn move_there_and_back(version: ServerVersion, move_slots: MoveSlots) {
    let _turn = turn();
    let field = Field::on(Deployment::crowded_cluster(version, NoticeKind::Auto));
    let cluster = field.deployment.cluster_itself();
    let (home, away) = (field.deployment.master(0), field.deployment.master(1));
    let (began, before) = (Moment::now(), Redirects::told_by(&field.deployment));
    for _ in 0..rounds() {
        for to in [&away, &home] {
            move_slots(cluster, CROWDED, to);
            let owner = cluster.master_of(*CROWDED.start()).expect("an owner");
            assert_eq!(owner.port(), to.port(), "the slots have moved");
            field.recovered(0, Moment::now());
        }
    }
    let redirects = Redirects::told_by(&field.deployment) - before;
    let (took, grants) = (began.elapsed(), field.traffic.grants(0, began));
    let report = field.end();
    println!(
        "{}: {} slots there and back, {} times, within {took:?}: {redirects:?}, {grants} grants on them; {report}",
        version.name(),
        CROWDED.len(),
        rounds()
    );
    // Or nothing was asked while they were on their way.
    assert!(redirects.moved > 0 && (redirects.asked > 100 || version.migrates_atomically()), "{redirects:?}");
    assert!(grants > 0, "work goes on");
    report.assert_nothing();
}

/// Slowly: first some keys of each slot are there, then all, and each state lasts longer than any renewal waits.
fn key_by_key(cluster: &RedisCluster, slots: RangeInclusive<u16>, to: &Arc<Node>) {
    let begun: Vec<_> = slots.map(|slot| cluster.begin_migration(slot, to).expect("begun")).collect();
    begun.iter().for_each(move_half);
    thread::sleep(dwell());
    let moved: usize = begun.iter().map(|migration| migration.move_keys().expect("moved")).sum();
    assert!(moved >= LEASES / 2, "only {moved} of the {LEASES} leases were there to be moved");
    thread::sleep(dwell());
    begun.into_iter().for_each(|migration| migration.finish().expect("finished"));
    cluster.wait_until_whole().expect("agreed");
}

fn move_half(migration: &SlotMigration<'_>) {
    let keys = migration.keys(KEYS_MAX).expect("keys");
    keys[..keys.len() / 2].iter().for_each(|key| migration.move_key(key).expect("moved"));
}

fn at_once(cluster: &RedisCluster, slots: RangeInclusive<u16>, to: &Arc<Node>) {
    cluster.migrate_slots_atomically(slots, to).expect("moved");
    // So that each life of the slots has its renewals.
    thread::sleep(dwell());
}

type MoveSlots = fn(&RedisCluster, RangeInclusive<u16>, &Arc<Node>);

/// More than a slot has.
const KEYS_MAX: usize = 1_000;
