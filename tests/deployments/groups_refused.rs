//! What each member of a group of acquires or releases is told when the server or the user's rights stand against some of
//! them, or against all: what is refused had no effect, and the others are done.

use leasehold::transport::{Call, Effect, ErrorKind, Op, Outcome};
use leasehold_redis::{Password, RedisConfig, Secret};
use leasehold_tests::harness::{
    polling::holds_within, redis_server::RedisServer, server_version::ServerVersion,
};

use crate::{
    groups::{assert_granted, assert_released, call_together, learn, names, release_together, wishes},
    lanes::{Lanes, TTL, call},
    refusals::{Single, on_each_version},
};

/// A lane that sends groups, on a server with the rights of one user to take away.
async fn single(version: ServerVersion) -> Single {
    let single = Single::start(version).await;
    learn(&single.lanes).await;
    single
}

async fn acquire_together(lanes: &Lanes, prefix: &str) -> Vec<Call> {
    call_together(lanes, wishes(lanes, &names(prefix, FEW))).await
}

/// Each was refused for this reason, without effect.
fn assert_refused(calls: &[Call], kind: ErrorKind, word: &str) {
    assert!(!calls.is_empty());
    for call in calls {
        let Outcome::Failed(error) = &call.outcome else { panic!("{word}: {call:?}") };
        assert_eq!((error.kind, error.effect), (kind, Effect::None), "{word}: {error:?}");
        assert!(error.detail.contains(word), "{word}: {error}");
    }
}

/// Groups are granted and released, and nothing is left.
async fn works_again(single: &Single) {
    for _ in 0..2 {
        let held = acquire_together(&single.lanes, "again").await;
        assert_granted(&held);
        assert_released(&release_together(&single.lanes, &held).await);
    }
    single.keeps_nothing_else();
}

#[tokio::test]
async fn s9_each_right_that_is_missing_refuses_the_whole_group_without_effect() {
    on_each_version(async |version| {
        let single = single(version).await;
        // A group looks into keys that exist only.
        for right in ["-evalsha", "-time", "-pttl", "-hset", "-pexpire", "-hdel", "resetkeys"] {
            single
                .without(&[right], async || {
                    assert_refused(
                        &acquire_together(&single.lanes, "free").await,
                        ErrorKind::Denied,
                        "rights",
                    );
                    single.keeps_nothing_else();
                })
                .await;
        }
        for right in ["-time", "-hdel", "resetkeys"] {
            let held = acquire_together(&single.lanes, "held:").await;
            assert_granted(&held);
            let refused =
                single.without(&[right], async || release_together(&single.lanes, &held).await).await;
            assert_refused(&refused, ErrorKind::Denied, "rights");
            assert_released(&release_together(&single.lanes, &held).await);
        }
        works_again(&single).await;
    })
    .await;
}

/// A caller with a name that its user may not use harms no other caller.
#[tokio::test]
async fn names_that_are_not_allowed_are_refused_and_the_others_are_done() {
    on_each_version(async |version| {
        let single = single(version).await;
        single
            .without(&["resetkeys", "~allowed*"], async || {
                let all = [names("allowed", FEW), names("forbidden", 2)].concat();
                for _ in 0..2 {
                    let answered = call_together(&single.lanes, wishes(&single.lanes, &all)).await;
                    let (granted, refused) = answered.split_at(FEW);
                    assert_granted(granted);
                    assert_refused(refused, ErrorKind::Denied, "rights");
                    let ended = release_together(&single.lanes, &answered).await;
                    let (released, refused) = ended.split_at(FEW);
                    assert_released(released);
                    assert_refused(refused, ErrorKind::Denied, "rights");
                }
            })
            .await;
        works_again(&single).await;
    })
    .await;
}

#[tokio::test]
async fn without_the_right_to_publish_releases_free_their_locks() {
    on_each_version(async |version| {
        let single = single(version).await;
        for right in ["-publish", "resetchannels"] {
            let held = acquire_together(&single.lanes, "held:").await;
            let ended = single.without(&[right], async || release_together(&single.lanes, &held).await).await;
            for call in &ended {
                assert!(matches!(call.outcome, Outcome::Released { listeners: None, .. }), "{call:?}");
            }
            assert!(single.command(&["ACL", "SETUSER", "ours", "&*"]).is_ok());
            single.keeps_nothing_else();
        }
        works_again(&single).await;
    })
    .await;
}

/// What answers for a key cannot be known then.
#[tokio::test]
async fn without_the_right_to_info_each_lock_goes_alone() {
    on_each_version(async |version| {
        let server = RedisServer::builder().version(version).acl_user("ours on >hunter2 ~* &* +@all -info");
        let server = server.start().expect("a server");
        let mut config = RedisConfig::single("127.0.0.1", server.port());
        config.username = Some("ours".into());
        config.password = Some(Password::Value(Secret::new("hunter2")));
        let lanes = Lanes::open(config).await;
        learn(&lanes).await;
        let mut client = server.client().expect("a connection");
        assert!(client.command(&["CONFIG", "RESETSTAT"]).expect("a reply").is_ok());
        assert_granted(&acquire_together(&lanes, "free").await);
        let info = client.command(&["INFO", "commandstats"]).expect("a reply").text().unwrap_or_default();
        assert!(info.contains(&format!("cmdstat_evalsha:calls={FEW},")), "{info}");
    })
    .await;
}

/// Of what is held already, also that which is asked for again needs no memory.
#[tokio::test]
async fn s9_out_of_memory_a_group_takes_nothing_new_and_releases_work() {
    on_each_version(async |version| {
        let single = single(version).await;
        let held = acquire_together(&single.lanes, "held:").await;
        assert_granted(&held);
        single.set("maxmemory", "1");
        let again: Vec<Call> = held.iter().map(|hold| call(hold, hold.op)).collect();
        let both = [again, wishes(&single.lanes, &names("free", FEW))].concat();
        let answered = call_together(&single.lanes, both).await;
        let (again, refused) = answered.split_at(FEW);
        if version != ServerVersion::Redis62 {
            assert_refused(refused, ErrorKind::NotReady, "OOM");
        }
        assert_granted(again);
        assert_released(&release_together(&single.lanes, &held).await);
        single.keeps_nothing_else();
        single.set("maxmemory", "0");
        works_again(&single).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_without_enough_replicas_refuses_each_member() {
    on_each_version(async |version| {
        let single = single(version).await;
        let held = acquire_together(&single.lanes, "held:").await;
        single.set("min-replicas-to-write", "1");
        assert_refused(&acquire_together(&single.lanes, "free").await, ErrorKind::NotReady, "NOREPLICAS");
        assert_refused(&release_together(&single.lanes, &held).await, ErrorKind::NotReady, "NOREPLICAS");
        single.set("min-replicas-to-write", "0");
        assert_released(&release_together(&single.lanes, &held).await);
        works_again(&single).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_busy_with_a_script_refuses_each_member() {
    on_each_version(async |version| {
        let single = single(version).await;
        let held = acquire_together(&single.lanes, "held:").await;
        let mut hog = single.client();
        hog.send(&["EVAL", "while true do end", "0"]).expect("sent");
        let busy = || single.command(&["GET", "x"]).error().is_some_and(|why| why.starts_with("BUSY"));
        assert!(holds_within(PATIENCE, busy));
        assert_refused(&acquire_together(&single.lanes, "free").await, ErrorKind::NotReady, "BUSY");
        assert_refused(&release_together(&single.lanes, &held).await, ErrorKind::NotReady, "BUSY");
        assert!(single.command(&["SCRIPT", "KILL"]).is_ok());
        single.until_granted().await;
        assert_released(&release_together(&single.lanes, &held).await);
        works_again(&single).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_forgot_its_scripts_between_two_groups_is_told_them_again() {
    on_each_version(async |version| {
        let single = single(version).await;
        for _ in 0..3 {
            assert!(single.command(&["SCRIPT", "FLUSH"]).is_ok());
            let held = acquire_together(&single.lanes, "free").await;
            assert_granted(&held);
            assert!(single.command(&["SCRIPT", "FLUSH"]).is_ok());
            assert_released(&release_together(&single.lanes, &held).await);
        }
        works_again(&single).await;
    })
    .await;
}

/// The connection ends at the first refusal.
#[tokio::test]
async fn a_replica_refuses_each_member() {
    on_each_version(async |version| {
        let single = single(version).await;
        assert!(single.command(&["REPLICAOF", "127.0.0.1", "1"]).is_ok());
        assert_refused(&acquire_together(&single.lanes, "free").await, ErrorKind::NotReady, "");
        assert!(single.command(&["REPLICAOF", "NO", "ONE"]).is_ok());
        single.until_granted().await;
        works_again(&single).await;
    })
    .await;
}

/// A caller whose time is short fails alone.
#[tokio::test]
async fn a_member_whose_time_is_over_takes_no_other_with_it() {
    on_each_version(async |version| {
        let single = single(version).await;
        let past = leasehold::clock::Clock::Boot.now();
        let mut wishes = wishes(&single.lanes, &names("free", FEW));
        let last = wishes.pop().map(|late| late.with_execute_by(past)).expect("one");
        wishes.insert(FEW / 2, last);
        let answered = call_together(&single.lanes, wishes).await;
        let (late, others): (Vec<_>, Vec<_>) = answered.into_iter().partition(|call| call.execute_by == past);
        assert_granted(&others);
        assert!(!matches!(late[0].outcome, Outcome::Granted { .. }), "{late:?}");
        let held: Vec<Call> = others.iter().map(|hold| call(hold, Op::Acquire { ttl: TTL })).collect();
        assert_released(&release_together(&single.lanes, &held).await);
        works_again(&single).await;
    })
    .await;
}

const FEW: usize = 20;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
