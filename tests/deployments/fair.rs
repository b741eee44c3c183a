//! Fair locks where slots move and masters hand over: nobody is granted in between, and nobody loses a hold or a place.

use std::time::Duration;

use leasehold::{
    Engine,
    routing::topology::NodeId,
    transport::{Call, Effect, ErrorKind, HoldKind, Op, Outcome, PlaceTerms, TransportError},
};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    cluster::RedisCluster,
    node::Node,
    sentinel::{RedisSentinel, SERVICE},
};

use crate::{
    lanes::{Lanes, TTL, call},
    refusals::on_each_version,
};

/// The hold, the line, the deadlines, the places of Leasehold.
fn keys(lock: &str) -> [String; 4] {
    [
        lock.to_owned(),
        format!("redisson_lock_queue:{lock}"),
        format!("redisson_lock_timeout:{lock}"),
        format!("{lock}:leasehold_alive"),
    ]
}

fn terms() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_millis(1_500))
}

fn wish(lanes: &Lanes, name: &str) -> Call {
    lanes.wish_for(HoldKind::Fair, name)
}

/// Asks for the lock or a place.
async fn queue(lanes: &Lanes, of: &Call) -> Result<Outcome, TransportError> {
    lanes.calls.call_one(call(of, Op::Queue { ttl: TTL, place: terms() })).await.into_result()
}

async fn beats(lanes: &Lanes, of: &[&Call]) -> Vec<Outcome> {
    let batch = of.iter().map(|of| call(of, Op::Beat { place: terms() })).collect();
    lanes.calls.call(NodeId(0), batch).await.into_iter().map(|call| call.outcome).collect()
}

fn is_refused_for_now(error: Option<&TransportError>) -> bool {
    error.is_some_and(|error| (error.kind, error.effect) == (ErrorKind::NotReady, Effect::None))
}

/// Whether it is in line, or was refused while the keys are apart.
fn may_be_queued(reply: &Result<Outcome, TransportError>, is_whole: bool) -> bool {
    match reply {
        Ok(Outcome::Queued { .. }) => is_whole,
        other => is_refused_for_now(other.as_ref().err()),
    }
}

/// Every part of the four keys at either end, on every version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_whose_slot_is_moved_loses_nobody_and_grants_nobody() {
    on_each_version(async |version| {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
        for moved in 0_u8..16 {
            check_move(&cluster, &lanes, moved).await;
        }
        for node in cluster.nodes() {
            assert!(node.command(&["KEYS", "*"]).expect("a reply").texts().is_empty());
        }
    })
    .await;
}

async fn check_move(cluster: &RedisCluster, lanes: &Lanes, moved: u8) {
    println!("{moved:04b}");
    // A slot of its own: a slot that moves again before all nodes know of its last move may go back, without its keys.
    let (lock, other) = (format!("{{t{moved}}}held"), format!("{{t{moved}}}free"));
    let holder = lanes.granted(wish(lanes, &lock)).await;
    let [head, last, new, free] = [&lock, &lock, &lock, &other].map(|name| wish(lanes, name));
    for place in [&head, &last] {
        let reply = queue(lanes, place).await;
        assert!(matches!(reply, Ok(Outcome::Queued { .. })), "{reply:?}");
    }
    let slot = holder.key.slot().number();
    let masters = cluster.masters().expect("masters");
    let source = cluster.master_of(slot).expect("a master");
    let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
    let migration = cluster.begin_migration(slot, target).expect("begun");
    for (_, key) in (0..).zip(keys(&lock)).filter(|(place, _)| moved & (1 << place) != 0) {
        migration.move_key(key.as_bytes()).expect("moved");
    }
    let is_whole = moved == 0 || moved == 15;
    let told = format!("{moved:04b}");
    assert!(lanes.is_renewed(&[&holder]).await, "{told}");
    let reply = queue(lanes, &new).await;
    assert!(may_be_queued(&reply, is_whole), "{told}: {reply:?}");
    let reply = queue(lanes, &free).await;
    assert!(is_refused_for_now(reply.as_ref().err()), "{told}: {reply:?}");
    for outcome in beats(lanes, &[&head, &last]).await {
        assert!(may_be_queued(&outcome.into_result(), is_whole), "{told}");
    }
    let left = lanes.release(&new).await;
    assert_eq!(matches!(left, Ok(Outcome::Released { .. })), is_whole, "{told}: {left:?}");
    assert!(is_whole || is_refused_for_now(left.as_ref().err()), "{told}: {left:?}");
    assert!(lanes.is_released(&holder).await, "{told}: a hold can be ended");
    let reply = queue(lanes, &last).await;
    assert!(!matches!(reply, Ok(Outcome::Granted { .. })), "{told}: {reply:?}");
    migration.move_keys().expect("moved");
    migration.finish().expect("finished");
    let found = beats(lanes, &[&head, &last, &new]).await;
    assert!(
        matches!(
            found[..],
            [Outcome::Turn { .. }, Outcome::Queued { ahead: 1, .. }, Outcome::NotYours { .. }]
        ),
        "{told}: {found:?}"
    );
    for place in [&head, &last] {
        let reply = queue(lanes, place).await;
        assert!(matches!(reply, Ok(Outcome::Granted { .. })), "{told}: {reply:?}");
        assert!(lanes.is_released(place).await, "{told}");
    }
}

/// What a failover forgets is asked for again: each waiter joins the line of the new master, and all are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_at_the_new_master() {
    let deployment = RedisSentinel::start().expect("servers");
    let addresses = deployment.sentinel_addresses();
    let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
    let config = RedisConfig::sentinel(addresses, SERVICE);
    let engine = Engine::builder(RedisTransport::new(config)).build().await.expect("an engine");
    let first = engine.fair_lock("k").acquire().await.expect("a free lock");
    let waiting: Vec<_> = (0..10).map(|_| tokio::spawn(hold_once(engine.clone()))).collect();
    let old = deployment.master().expect("a master");
    until_in_line(&old, 10).await;
    let copied = old.command(&["WAIT", "1", "5000"]).expect("a reply");
    assert!(copied.integer() > Some(0), "{copied:?}");
    let old = deployment.master_port().expect("a master");
    deployment.failover().expect("asked for");
    let new = deployment.wait_for_switch(old).expect("switched");
    until_in_line(&new, 10).await;
    first.release().await.expect("it is ours at the new master, too");
    for waiting in waiting {
        tokio::time::timeout(SOON, waiting).await.expect("granted in time").expect("no panic");
    }
    assert!(new.command(&["KEYS", "*"]).expect("a reply").texts().is_empty());
}

async fn hold_once(engine: Engine) {
    let lease = engine.fair_lock("k").acquire().await.expect("our turn");
    lease.release().await.expect("ours to the end");
}

async fn until_in_line(master: &Node, count: i64) {
    let joined = async {
        while master.command(&["LLEN", "redisson_lock_queue:{k}"]).expect("a reply").integer() != Some(count)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, joined).await.expect("in line in time");
}

const SOON: Duration = Duration::from_secs(30);
