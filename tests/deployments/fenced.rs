//! Fenced locks on servers of every version: rights and memory that are missing, counters that are none, slots on their
//! way, and a failover.

use std::time::Duration;

use leasehold::{
    Engine, FencingMode, Lease,
    transport::{Call, ErrorKind, HoldKind, Outcome},
};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    cluster::{RedisCluster, SlotMigration},
    sentinel::{RedisSentinel, SERVICE},
};

use crate::{
    lanes::Lanes,
    refusals::{Single, is_refused, on_each_version},
};

const MODES: [FencingMode; 2] = [FencingMode::Hybrid, FencingMode::Counter];
const COUNTER: &str = "redisson_lock_token:{free}";

fn wish(lanes: &Lanes, mode: FencingMode, name: &str) -> Call {
    lanes.wish_for(HoldKind::Fenced(mode), name)
}

/// A hold that is there has an expiry, and none is there that was refused. The plain lock `held` is there all the time.
fn has_left_nothing(single: &Single) {
    assert_eq!(single.command(&["EXISTS", "free"]).integer(), Some(0));
    assert!(single.command(&["PTTL", "held"]).integer() > Some(0));
}

/// Each right that a fenced acquire needs, and each pair of them.
#[tokio::test]
async fn s9_a_missing_right_of_a_fenced_lock_is_told_and_leaves_no_hold() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        // The server has to be told the script once, by EVAL.
        let first = single.lanes.granted(wish(&single.lanes, MODES[0], "first")).await;
        assert!(single.lanes.is_released(&first).await);
        for mode in MODES {
            let of_mode = if mode == FencingMode::Hybrid { "-set" } else { "-incr" };
            let rights = [&RIGHTS[..], &[of_mode]].concat();
            for (n, one) in rights.iter().enumerate() {
                for other in &rights[n..] {
                    let refused = async || {
                        let refused = single.lanes.acquire(&wish(&single.lanes, mode, "free")).await;
                        is_refused(&refused.expect_err(one), ErrorKind::Denied, "grant the rights");
                        has_left_nothing(&single);
                    };
                    single.without(&[one, other], refused).await;
                }
            }
        }
        let other_keys = async || single.lanes.acquire(&wish(&single.lanes, MODES[0], "free")).await;
        let refused = single.without(&["resetkeys", "~held", "~free"], other_keys).await;
        is_refused(&refused.expect_err("the counter's key"), ErrorKind::Denied, "grant the rights");
        has_left_nothing(&single);
        single.lanes.granted(wish(&single.lanes, MODES[0], "free")).await;
    })
    .await;
}

const RIGHTS: [&str; 9] =
    ["-evalsha", "-time", "-hexists", "-pttl", "-hset", "-pexpire", "-hdel", "-get", "resetkeys"];

#[tokio::test]
async fn s9_out_of_memory_no_fenced_lock_is_granted_and_what_is_held_goes_on() {
    on_each_version(async |version| {
        for mode in MODES {
            let single = Single::start(version).await;
            let held = single.lanes.granted(wish(&single.lanes, mode, "mine")).await;
            let token = token(single.lanes.acquire(&held).await.expect("an answer"));
            single.set("maxmemory", "1");
            let refused = single.lanes.acquire(&wish(&single.lanes, mode, "free")).await;
            is_refused(&refused.expect_err("OOM"), ErrorKind::NotReady, "OOM");
            has_left_nothing(&single);
            assert_eq!(single.command(&["EXISTS", COUNTER]).integer(), Some(0));
            assert_eq!(self::token(single.lanes.acquire(&held).await.expect("an answer")), token, "a repeat");
            assert!(single.lanes.is_renewed(&[&held]).await && single.lanes.is_released(&held).await);
            single.set("maxmemory", "0");
            let next = wish(&single.lanes, mode, "mine");
            assert!(self::token(single.lanes.acquire(&next).await.expect("an answer")) > token);
        }
    })
    .await;
}

/// The plain lock of the name is as well as ever.
#[tokio::test]
async fn s10_a_counter_that_is_none_is_refused_and_kept() {
    on_each_version(async |version| {
        let single = Single::start(version).await;
        for put in [
            &["LPUSH", COUNTER, "1"][..],
            &["SET", COUNTER, "no number"],
            &["SET", COUNTER, "-5"],
            &["SET", COUNTER, "9007199254740991"],
        ] {
            single.command(&["DEL", COUNTER]);
            single.command(put);
            let before = single.command(&["DUMP", COUNTER]);
            for mode in MODES {
                let refused = single.lanes.acquire(&wish(&single.lanes, mode, "free")).await;
                is_refused(&refused.expect_err("no counter"), ErrorKind::WrongType, "use another name");
            }
            has_left_nothing(&single);
            assert_eq!(format!("{before:?}"), format!("{:?}", single.command(&["DUMP", COUNTER])));
            let plain = single.lanes.held("free").await;
            assert!(single.lanes.is_released(&plain).await);
        }
    })
    .await;
}

/// A hold is renewed and released at either end. A lock that is free waits until its counter is where it is.
#[tokio::test]
async fn s6_a_fenced_lock_whose_slot_is_moved_is_granted_afterwards_with_a_higher_token() {
    on_each_version(async |version| {
        let cluster = RedisCluster::builder().version(version).replicas_each(0).start().expect("a cluster");
        let nodes = cluster.ports().into_iter().map(|port| Address::new("127.0.0.1", port));
        let config = RedisConfig::cluster(nodes);
        let lanes = Lanes::open(config.clone()).await;
        for mode in MODES {
            let [held, free, stays] = ["{t}held", "{t}free", "{t}stays"].map(|name| wish(&lanes, mode, name));
            let [held_token, free_token, _] = [
                token_of(&lanes, &held).await,
                token_of(&lanes, &free).await,
                token_of(&lanes, &stays).await,
            ];
            assert!(lanes.is_released(&free).await);
            let slot = held.key.slot().number();
            let masters = cluster.masters().expect("masters");
            let source = cluster.master_of(slot).expect("a master");
            let target = masters.iter().find(|node| node.port() != source.port()).expect("another");
            let migration = cluster.begin_migration(slot, target).expect("begun");
            migration.move_key(b"{t}held").expect("moved");
            assert!(lanes.is_renewed(&[&held, &stays]).await, "its counter is at the other end");
            not_now(&lanes, &wish(&lanes, mode, "{t}free")).await;
            migration.move_key(b"redisson_lock_token:{t}held").expect("moved");
            migration.move_key(b"redisson_lock_token:{t}free").expect("moved");
            assert_eq!(token_of(&lanes, &held).await, held_token, "both keys have moved: a repeat");
            not_now(&lanes, &wish(&lanes, mode, "{t}free")).await;
            assert!(lanes.is_released(&held).await);
            let engine = Engine::builder(RedisTransport::new(config.clone())).fencing(mode);
            let engine = engine.build().await.expect("an engine");
            let waiting = tokio::spawn(engine.fenced_lock("{t}free").acquire());
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(!waiting.is_finished());
            migration.move_keys().and_then(|_| SlotMigration::finish(migration)).expect("finished");
            let lease = waiting.await.expect("no panic").expect("granted");
            assert!(lease.fencing_token().as_i64() > free_token);
            lease.release().await.expect("released");
            assert!(lanes.is_released(&stays).await);
        }
    })
    .await;
}

/// A replica took over that had not heard of the last grants: their counter is gone, and the time makes up for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s6_after_a_failover_that_forgot_the_counter_a_hybrid_token_is_higher() {
    let servers = RedisSentinel::builder().start().expect("sentinels");
    let sentinels = servers.sentinel_addresses();
    let sentinels = sentinels.iter().map(|address| address.parse().expect("an address"));
    let transport = RedisTransport::new(RedisConfig::sentinel(sentinels, SERVICE));
    let engine = Engine::builder(transport).build().await.expect("an engine");
    let before = until_granted(&engine).await;
    let kept = before.fencing_token();
    before.release().await.expect("released");
    let old = servers.master().expect("a master").port();
    servers.failover().expect("it begins");
    let new = || servers.master().ok().filter(|master| master.port() != old);
    let mut master = new();
    while master.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        master = new();
    }
    let forgot = || master.as_ref().and_then(|master| master.command(&["DEL", COUNTER]).ok()?.integer());
    while forgot() != Some(1) {
        tokio::time::sleep(Duration::from_millis(50)).await; // it is not a master yet
    }
    let after = until_granted(&engine).await;
    assert!(after.fencing_token() > kept, "{:?} after {kept:?}", after.fencing_token());
    after.release().await.expect("released");
}

async fn until_granted(engine: &Engine) -> Lease {
    for _ in 0..6 {
        if let Ok(lease) = engine.fenced_lock("free").acquire().await {
            return lease;
        }
    }
    panic!("nothing is granted any more");
}

async fn token_of(lanes: &Lanes, wish: &Call) -> i64 {
    token(lanes.acquire(wish).await.expect("an answer"))
}

fn token(outcome: Outcome) -> i64 {
    match outcome {
        Outcome::Granted { token, .. } => token.as_i64(),
        other => panic!("granted, not {other:?}"),
    }
}

async fn not_now(lanes: &Lanes, wish: &Call) {
    let refused = lanes.acquire(wish).await.expect_err("on its way");
    is_refused(&refused, ErrorKind::NotReady, "a slot is being moved");
}
