//! A watched lock's slot moves: with every kind of notices no release goes unnoticed, before, while and after.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    transport::{Outcome, Transport, Watch},
};
use leasehold_conformance::{Context, Fixture, LONG, run};
use leasehold_redis::{Address, NoticeKind, RedisConfig, RedisTransport};
use leasehold_tests::{
    changed,
    harness::{cluster::RedisCluster, node::Node},
};

use tokio::time::timeout;

use crate::{moment::Moment, queue::alone};

#[test]
fn l2_with_every_kind_of_notices_a_watch_misses_nothing_while_its_slot_moves() {
    alone(|| {
        run::<Watched>(async |watched| {
            let [auto, classic, sharded, both] = KINDS.map(|kind| watched.by(kind));
            // At the same time: who only watches is told of a move within five seconds.
            tokio::join!(
                move_its_slot(&auto),
                move_its_slot(&classic),
                move_its_slot(&sharded),
                move_its_slot(&both)
            );
        });
    });
}

/// A cluster of Redis 7.0, and how locks on it are watched.
struct Watched {
    cluster: Arc<RedisCluster>,
    kind: NoticeKind,
}

impl Fixture for Watched {
    const CLOCK: Clock = Clock::Boot;
    const EVERY_NAME: bool = false;

    async fn fresh() -> Self {
        let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
        Self { cluster: Arc::new(cluster), kind: NoticeKind::Auto }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        let ports = self.cluster.ports().into_iter();
        let config = RedisConfig::cluster(ports.map(|port| Address::new("127.0.0.1", port)));
        Arc::new(RedisTransport::new(changed(config, |new| new.notices = self.kind)))
    }
}

/// Two processes: one watches and does nothing else, so that only the cluster can tell it of the move.
async fn move_its_slot(watched: &Watched) {
    let (watching, holding) = (Context::open(watched).await, Context::open(watched).await);
    let key = watched.key(&watching);
    let (slot, source) = (key.slot().number(), watched.master_of(&key));
    let target = watched.another_than(&source);
    let mut watch = watching.watch_over(&*watching.calls, &key).await;
    assert_eq!(watched.listeners(&key, &source), 1);
    ends_noticed("before", &holding, &key, &mut watch).await;

    let stays = holding.held(&key, LONG).await;
    let migration = watched.cluster.begin_migration(slot, &target).expect("begun");
    is_noticed("not moved yet", &mut watch, async || holding.release(&key, stays).await).await;
    // From now on the lock is granted and released at the target, with the slot still at the source.
    ends_noticed("moved before its slot", &holding, &key, &mut watch).await;
    let forced = holding.held(&key, LONG).await;
    is_noticed("forced", &mut watch, async || {
        assert!(holding.calls.force_release(&key).await.expect("a definite answer"), "{forced}");
    })
    .await;
    let before = watch.observe();
    assert_eq!((before.in_force, before.gaps), (true, 0), "nothing has moved for who only watches");

    let moves = holding.held(&key, LONG).await;
    migration.finish().expect("finished");
    let moved = Moment::now();
    holding.release(&key, moves).await;
    while watch.peek().notices == before.notices && watch.peek().gaps == 0 {
        watch.changed().await;
        watch.observe();
    }
    let told = moved.elapsed();
    watching.until(async || watched.listeners(&key, &target) == 1 && watch.peek().in_force).await;
    println!(
        "{:?}: told {told:?} after the slot had moved, subscribed anew after {:?}",
        watched.kind,
        moved.elapsed()
    );
    ends_noticed("after", &holding, &key, &mut watch).await;
    assert_eq!(watched.listeners(&key, &source), 0, "nothing stays behind");
}

impl Watched {
    fn by(&self, kind: NoticeKind) -> Self {
        Self { cluster: self.cluster.clone(), kind }
    }

    /// Each kind has slots of its own.
    fn key(&self, context: &Context) -> Arc<LockKey> {
        let number = KINDS.iter().position(|kind| *kind == self.kind).expect("one of them");
        let mut keys = (0..).map(|n: usize| context.key(&n.to_string()));
        keys.find(|key| usize::from(key.slot().number()) % KINDS.len() == number).expect("keys without end")
    }

    fn master_of(&self, key: &LockKey) -> Arc<Node> {
        self.cluster.master_of(key.slot().number()).expect("a master")
    }

    fn another_than(&self, node: &Node) -> Arc<Node> {
        let masters = self.cluster.masters().expect("masters");
        masters.into_iter().find(|master| master.port() != node.port()).expect("three masters")
    }

    /// How many connections have subscribed to the lock's channel at this node, in the way that is in use.
    fn listeners(&self, key: &LockKey, node: &Node) -> i64 {
        let count = match self.kind {
            NoticeKind::Classic => "NUMSUB",
            _ => "SHARDNUMSUB",
        };
        let channel = format!("redisson_lock__channel:{{{}}}", key.on_server());
        let reply = node.command(&["PUBSUB", count, &channel]).expect("a reply");
        reply.items()[1].integer().expect("a count")
    }
}

async fn ends_noticed(when: &str, holding: &Context, key: &Arc<LockKey>, watch: &mut Watch) {
    let owner = holding.held(key, LONG).await;
    let reply = is_noticed(when, watch, async || holding.release(key, owner).await).await;
    let Outcome::Released { listeners, .. } = reply else { panic!("it is not released: {reply:?}") };
    assert_ne!(listeners, Some(0), "nobody would be left to wake");
}

/// By one notice more.
async fn is_noticed<T>(when: &str, watch: &mut Watch, end: impl AsyncFnOnce() -> T) -> T {
    let before = watch.observe().notices;
    let ended = end().await;
    let noticed = async {
        while watch.observe().notices == before {
            watch.changed().await;
        }
    };
    timeout(PATIENCE, noticed).await.unwrap_or_else(|_| panic!("{when}: the end of a hold went unnoticed"));
    ended
}

const KINDS: [NoticeKind; 4] = [NoticeKind::Auto, NoticeKind::Classic, NoticeKind::Sharded, NoticeKind::Both];
/// Far above the way of a notice.
const PATIENCE: Duration = Duration::from_secs(10);
