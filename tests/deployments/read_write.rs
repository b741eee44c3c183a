//! Read/write locks where slots move, masters hand over and proxies cut batches.

use std::sync::Arc;

use leasehold::{
    key::LockKey,
    transport::{Call, Effect, ErrorKind, HoldKind, Op, Outcome, TransportError},
};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{
    cluster::RedisCluster,
    gateway::{Gateway, Habits},
    node::Node,
    redis_server::RedisServer,
    sentinel::{RedisSentinel, SERVICE},
    server_version::ServerVersion,
};

use crate::lanes::{Lanes, TTL, call};

const READ: HoldKind = HoldKind::Read;
const WRITE: HoldKind = HoldKind::Write;

fn timeout_key(hold: &Call) -> String {
    let name = hold.key.on_server();
    let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
    format!("{tagged}:{}:rwlock_timeout:1", hold.owner)
}

/// No key of the server stays for ever. Returns their number.
fn mortal_keys(nodes: &[Arc<Node>]) -> usize {
    let mut count = 0;
    for node in nodes {
        let keys = node.command(&["KEYS", "*"]).expect("a reply").texts();
        for key in &keys {
            // Behind a move a node redirects who asks for a key that it does not have.
            let left = node.command(&["PTTL", key]).expect("a reply").integer();
            assert_ne!(left, Some(-1), "{key} at {}", node.port());
        }
        count += keys.len();
    }
    count
}

fn is_held_by_others(reply: &Result<Outcome, TransportError>) -> bool {
    matches!(reply, Ok(Outcome::Busy { .. }))
}

fn is_refused_for_now(reply: &Result<Outcome, TransportError>) -> bool {
    let refused = |error: &TransportError| (error.kind, error.effect) == (ErrorKind::NotReady, Effect::None);
    reply.as_ref().is_err_and(refused)
}

/// Two readers of one lock, and which of its three keys have moved.
struct Moving<'a> {
    lanes: &'a Lanes,
    leaves: Call,
    stays: Call,
    moved: u8,
}

impl Moving<'_> {
    fn keys(&self) -> [String; 3] {
        [self.leaves.key.on_server().to_owned(), timeout_key(&self.leaves), timeout_key(&self.stays)]
    }

    fn moved_keys(&self) -> Vec<String> {
        let has_moved = |place: &usize| self.moved & (1 << place) != 0;
        (0..3).filter(has_moved).map(|place| self.keys()[place].clone()).collect()
    }

    async fn check(&self) {
        let told = format!("{:?} have moved", self.moved_keys());
        for holds in [&[&self.leaves][..], &[&self.leaves, &self.stays]] {
            assert!(self.lanes.is_renewed(holds).await, "{told}");
        }
        assert!(
            is_held_by_others(&self.lanes.acquire(&self.lanes.wish_for(WRITE, self.name())).await),
            "{told}"
        );
        // A lock with a key at each node takes nobody new: nothing is done.
        let fresh = self.lanes.wish_for(READ, self.name());
        let joined = self.lanes.acquire(&fresh).await;
        assert!(
            is_refused_for_now(&joined) || matches!(joined, Ok(Outcome::Granted { .. })),
            "{told}: {joined:?}"
        );
        let released = self.lanes.release(&fresh).await;
        assert!(
            matches!(released, Ok(Outcome::Released { .. } | Outcome::NotYours { .. })),
            "{told}: {released:?}"
        );
        assert!(self.lanes.is_released(&self.leaves).await, "{told}");
        let again = self.lanes.release(&self.leaves).await;
        assert!(matches!(again, Ok(Outcome::NotYours { .. })), "{told}: {again:?}");
        assert!(self.lanes.is_renewed(&[&self.stays]).await, "{told}: the other reader stays");
        assert!(
            is_held_by_others(&self.lanes.acquire(&self.lanes.wish_for(WRITE, self.name())).await),
            "{told}"
        );
    }

    fn name(&self) -> &str {
        self.leaves.key.on_server()
    }
}

/// Every place at which a move can be, on every version: readers are renewed and released, and none for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_holds_live_while_their_slot_is_moved() {
    for version in ServerVersion::ALL {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
        for moved in 0..8 {
            println!("{version:?}, {moved:03b}");
            let name = format!("moves{moved}");
            let (leaves, stays) = (lanes.held_for(READ, &name).await, lanes.held_for(READ, &name).await);
            let moving = Moving { lanes: &lanes, leaves, stays, moved };
            let slot = moving.leaves.key.slot().number();
            let source = cluster.master_of(slot).expect("a master");
            let masters = cluster.masters().expect("masters");
            let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
            let migration = cluster.begin_migration(slot, target).expect("begun");
            for key in moving.moved_keys() {
                migration.move_key(key.as_bytes()).expect("moved");
            }
            moving.check().await;
            migration.move_keys().expect("moved");
            migration.finish().expect("finished");
            lanes.until_renewed(&[&moving.stays]).await;
            assert!(lanes.is_released(&moving.stays).await);
            let writer = lanes.held_for(WRITE, &name).await;
            assert!(lanes.is_released(&writer).await);
        }
        mortal_keys(&cluster.nodes());
    }
}

/// Whatever kind of lock the operator takes it for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l6_a_release_by_force_leaves_no_key_of_a_reader() {
    let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
    for kind in [READ, HoldKind::Exclusive, HoldKind::Fair] {
        for name in ["forced", "{shelf}:forced"] {
            let readers = [lanes.held_for(READ, name).await, lanes.held_for(READ, name).await];
            assert_eq!(mortal_keys(&cluster.nodes()), 3, "{kind}, {name}");
            let key = LockKey::with_family("", name, kind.family()).expect("a name");
            assert!(lanes.calls.force_release(&key).await.expect("an answer"), "{kind}, {name}");
            assert_eq!(mortal_keys(&cluster.nodes()), 0, "{kind}, {name}");
            assert!(!lanes.is_renewed(&[&readers[0]]).await);
        }
    }
}

/// A write hold has one key. A downgrade needs a second one, and waits for the end of the move if it must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_hold_lives_while_its_slot_is_moved_and_is_downgraded_behind_it() {
    let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    let lanes = Lanes::open(RedisConfig::from_url(&cluster.url()).expect("a url")).await;
    for has_moved in [false, true] {
        let name = format!("moves{has_moved}");
        let hold = lanes.held_for(WRITE, &name).await;
        let slot = hold.key.slot().number();
        let source = cluster.master_of(slot).expect("a master");
        let masters = cluster.masters().expect("masters");
        let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
        let migration = cluster.begin_migration(slot, target).expect("begun");
        if has_moved {
            migration.move_key(name.as_bytes()).expect("moved");
        }
        assert!(lanes.is_renewed(&[&hold]).await);
        let downgrade = async || lanes.calls.call_one(call(&hold, Op::Downgrade { ttl: TTL })).await;
        let refused = downgrade().await;
        assert!(is_refused_for_now(&refused.clone().into_result()), "{has_moved}: {refused:?}");
        assert!(lanes.is_renewed(&[&hold]).await, "it is a write hold as before");
        migration.move_keys().expect("moved");
        migration.finish().expect("finished");
        let downgraded = downgrade().await;
        assert!(matches!(downgraded, Outcome::Downgraded { .. }), "{has_moved}: {downgraded:?}");
        let reader = lanes.held_for(READ, &name).await;
        let released = lanes.calls.call_one(Call::new(
            hold.key.clone(),
            READ,
            Op::Release,
            hold.owner,
            call(&hold, Op::Release).execute_by,
        ));
        assert!(matches!(released.await, Outcome::Released { .. }));
        assert!(lanes.is_released(&reader).await);
    }
    assert_eq!(mortal_keys(&cluster.nodes()), 0);
}

/// The hash and the timeout keys are on the replica that becomes the master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_and_write_holds_live_through_a_failover() {
    let deployment = RedisSentinel::start().expect("servers");
    let addresses = deployment.sentinel_addresses();
    let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
    let lanes = Lanes::open(RedisConfig::sentinel(addresses, SERVICE)).await;
    let readers = [lanes.held_for(READ, "r").await, lanes.held_for(READ, "r").await];
    let writer = lanes.held_for(WRITE, "w").await;
    let old = deployment.master().expect("a master");
    let copied = old.command(&["WAIT", "1", "5000"]).expect("a reply");
    assert!(copied.integer() > Some(0), "{copied:?}");
    let old = deployment.master_port().expect("a master");
    deployment.failover().expect("asked for");
    let new = deployment.wait_for_switch(old).expect("switched");
    lanes.until_renewed(&[&readers[0], &readers[1], &writer]).await;
    let refused = lanes.acquire(&lanes.wish_for(WRITE, "r")).await;
    assert!(is_held_by_others(&refused), "{refused:?}");
    let refused = lanes.acquire(&lanes.wish_for(READ, "w")).await;
    assert!(is_held_by_others(&refused), "{refused:?}");
    for hold in readers.iter().chain([&writer]) {
        assert!(lanes.is_released(hold).await);
    }
    assert_eq!(mortal_keys(&[new]), 0);
}

/// A proxy that sends a script to the server of its first key: what it says against a hold is asked again alone.
#[tokio::test]
async fn read_holds_of_a_batch_that_a_proxy_cuts_are_renewed_alone() {
    let servers = [RedisServer::start().expect("a server"), RedisServer::start().expect("a server")];
    let ports = [servers[0].port(), servers[1].port()];
    let gateway = Gateway::start(&ports, Habits::default()).expect("a proxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    let mut holds = Vec::new();
    for n in 0..20 {
        let kind = [READ, WRITE, HoldKind::Exclusive][n % 3];
        let hold = lanes.held_for(kind, &format!("lock{n}")).await;
        assert!(lanes.is_renewed(&[&hold]).await);
        holds.push(hold);
    }
    let holds: Vec<&Call> = holds.iter().collect();
    let before = gateway.scripts();
    assert!(lanes.is_renewed(&holds).await);
    let first = gateway.scripts() - before;
    assert!(
        (6..=18).contains(&first),
        "two batches, and one more for each hold of the other server: {first}"
    );
    // From then on by slot: each name has a slot of its own.
    let before = gateway.scripts();
    assert!(lanes.is_renewed(&holds).await);
    assert_eq!(gateway.scripts() - before, 20);
}

/// One command for all read holds, and one for all others.
#[tokio::test]
async fn holds_of_all_kinds_are_renewed_in_two_commands() {
    let server = RedisServer::start().expect("a server");
    let gateway = Gateway::start(&[server.port()], Habits::default()).expect("a proxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    let mut holds = Vec::new();
    for n in 0..60 {
        let kind = [READ, WRITE, HoldKind::Exclusive][n % 3];
        holds.push(lanes.held_for(kind, &format!("lock{n}")).await);
    }
    let all: Vec<&Call> = holds.iter().collect();
    let (readers, others): (Vec<&Call>, Vec<&Call>) = holds.iter().partition(|hold| hold.kind == READ);
    // Each script is known from here on.
    assert!(lanes.is_renewed(&all).await);
    for (holds, expected) in [(all, 2), (readers, 1), (others, 1)] {
        let before = gateway.scripts();
        assert!(lanes.is_renewed(&holds).await);
        assert_eq!(gateway.scripts() - before, expected);
    }
}
