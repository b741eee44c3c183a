//! Permits on a cluster that changes under them: every call is answered, and no permit is lost or counted twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, Semaphore};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::cluster::{Failover, RedisCluster};
use tokio::task::JoinSet;

use crate::queue::alone;

const NAME: &str = "permits";
const PERMITS: u32 = 4;

/// Two engines whose tasks take and give back permits until they are told to stop.
struct Traffic {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU32>,
    permits: Semaphore,
}

impl Traffic {
    async fn begin(cluster: &RedisCluster) -> Self {
        let engines = [engine(cluster).await, engine(cluster).await];
        let permits = engines[0].semaphore(NAME);
        assert!(permits.try_set(PERMITS).await.expect("an answer"));
        let (stop, rounds, mut tasks) = (Arc::new(AtomicBool::new(false)), Arc::default(), JoinSet::new());
        for engine in engines.iter().cycle().take(6) {
            tasks.spawn(take_and_give(engine.semaphore(NAME), stop.clone(), Arc::clone(&rounds)));
        }
        let traffic = Self { tasks, stop, rounds, permits };
        traffic.goes_on().await;
        traffic
    }

    /// Waits for some more rounds.
    async fn goes_on(&self) {
        let enough = self.rounds.load(Ordering::SeqCst) + 30;
        let more = async {
            while self.rounds.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), more).await.expect("work goes on");
    }

    async fn end(mut self) {
        self.goes_on().await;
        self.stop.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("every call is answered");
        }
        assert_eq!(self.permits.available().await.expect("an answer"), i64::from(PERMITS));
    }
}

async fn engine(cluster: &RedisCluster) -> Engine {
    let config =
        RedisConfig::cluster(cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port)));
    let built = Engine::builder(RedisTransport::new(config)).unavailable_after(Duration::from_secs(60));
    built.build().await.expect("an engine")
}

async fn take_and_give(permits: Semaphore, stop: Arc<AtomicBool>, rounds: Arc<AtomicU32>) {
    while !stop.load(Ordering::SeqCst) {
        permits.acquire(1).await.expect("a permit");
        permits.release(1).await.expect("an answer");
        rounds.fetch_add(1, Ordering::SeqCst);
    }
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn a_planned_failover_of_a_cluster_loses_no_permit() {
    alone(|| {
        block_on(async {
            let cluster = RedisCluster::builder().replicas_each(1).start().expect("a cluster");
            let traffic = Traffic::begin(&cluster).await;
            let slot = cluster.slot_of(NAME).expect("a slot");
            let (old, replica) =
                (cluster.master_of(slot).expect("a master"), cluster.replica_of(slot).expect("a replica"));
            cluster.failover(&replica, Failover::Plain).expect("it begins");
            cluster.wait_for_promotion(slot, old.port()).expect("it takes over");
            traffic.end().await;
        });
    });
}

/// Its scripts have two keys, so they are refused while the slot is on its way, and repeated until it has arrived.
#[test]
fn permits_whose_slot_moves_are_neither_lost_nor_counted_twice() {
    alone(|| {
        block_on(async {
            let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
            let traffic = Traffic::begin(&cluster).await;
            let slot = cluster.slot_of(NAME).expect("a slot");
            let home = cluster.master_of(slot).expect("a master");
            let masters = cluster.masters().expect("masters");
            let away = masters.iter().find(|master| master.port() != home.port()).expect("another master");
            for to in [away, &home] {
                let migration = cluster.begin_migration(slot, to).expect("begun");
                let keys = migration.keys(100).expect("keys");
                keys[..1].iter().for_each(|key| migration.move_key(key).expect("moved"));
                tokio::time::sleep(Duration::from_millis(300)).await;
                migration.move_keys().expect("moved");
                tokio::time::sleep(Duration::from_millis(300)).await;
                migration.finish().expect("finished");
                cluster.wait_until_whole().expect("agreed");
                traffic.goes_on().await;
            }
            traffic.end().await;
        });
    });
}
