//! Acquire, release, renew, notices against a real server.

use std::time::Duration;

use crate::server::*;
use leasehold::{clock::Clock, owner::OwnerMint, routing::topology::NodeId, transport::*};

#[tokio::test]
async fn acquire_held_release() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let (mine, theirs) = (acquire(&mint, "k"), acquire(&mint, "k"));
    let Outcome::Granted { token, at } = lane.call_one(mine.clone()).await.into_result().unwrap() else {
        panic!()
    };
    assert_eq!(token.as_i64(), (at.micros << 10) as i64);
    // Again by the same owner: granted, counted once, not shortened.
    let Outcome::Granted { token: second, .. } = lane.call_one(mine.clone()).await.into_result().unwrap()
    else {
        panic!()
    };
    assert!(second > token);
    assert_eq!(server.cli(&["hgetall", "k"]), format!("{}\n1", mine.owner));
    let Outcome::Busy { remaining: Remaining::For(left), .. } =
        lane.call_one(theirs.clone()).await.into_result().unwrap()
    else {
        panic!()
    };
    assert!(left <= TTL && left > TTL - SECOND, "{left:?}");
    let seen = lane.inspect(&mine.key).await.unwrap();
    assert_eq!((seen.holds.len(), seen.holds[0].count), (1, 1));
    assert_eq!(seen.holds[0].owner, mine.owner.to_string());
    assert!(matches!(lane.call_one(release(&theirs)).await.into_result().unwrap(), Outcome::NotYours { .. }));
    assert!(matches!(
        lane.call_one(release(&mine)).await.into_result().unwrap(),
        Outcome::Released { listeners: Some(0), .. }
    ));
    assert!(matches!(lane.call_one(release(&mine)).await.into_result().unwrap(), Outcome::NotYours { .. }));
    assert!(lane.inspect(&mine.key).await.unwrap().holds.is_empty());
    assert!(!lane.force_release(&mine.key).await.unwrap());
    lane.call_one(theirs).await.into_result().unwrap();
    assert!(lane.force_release(&mine.key).await.unwrap());
    assert_eq!(server.cli(&["dbsize"]), "0");
}

#[tokio::test]
async fn a_batch_of_renewals_answers_each_member() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let (mine, persisted, gone) = (acquire(&mint, "a"), acquire(&mint, "b"), acquire(&mint, "c"));
    lane.call_one(mine.clone()).await.into_result().unwrap();
    lane.call_one(persisted.clone()).await.into_result().unwrap();
    server.cli(&["persist", "b"]);
    server.cli(&["set", "d", "no lock"]);
    let wrong = acquire(&mint, "d");
    let batch =
        vec![renewal(&mine, TTL * 2), renewal(&persisted, TTL), renewal(&gone, TTL), renewal(&wrong, TTL)];
    let answers: Vec<_> =
        lane.call(NodeId(0), batch).await.into_iter().map(|member| member.outcome).collect();
    assert!(matches!(answers[0], Outcome::Renewed { found, .. } if found <= TTL && found > TTL - SECOND));
    assert!(matches!(answers[1], Outcome::Renewed { found: Duration::MAX, .. }));
    assert!(matches!(answers[2], Outcome::NotYours { .. }));
    assert!(
        matches!(&answers[3], Outcome::Failed(error) if error.kind == ErrorKind::WrongType && error.effect == Effect::None)
    );
    assert!(server.cli(&["pttl", "a"]).parse::<u64>().unwrap() > 58_000);
    assert!(server.cli(&["pttl", "b"]).parse::<u64>().unwrap() > 28_000);
    assert_eq!(server.cli(&["get", "d"]), "no lock");
    // Never shortened.
    lane.call(NodeId(0), vec![renewal(&mine, SECOND)]).await;
    assert!(server.cli(&["pttl", "a"]).parse::<u64>().unwrap() > 58_000);
    assert_eq!(server.cli(&["exists", "c"]), "0");
}

#[tokio::test]
async fn a_key_of_another_type_is_left_alone() {
    let server = Server::start();
    let lane = server.calls().await;
    server.cli(&["set", "s", "value"]);
    let mint = OwnerMint::new();
    let ask = acquire(&mint, "s");
    for error in [
        lane.call_one(ask.clone()).await.into_result().unwrap_err(),
        lane.call_one(release(&ask)).await.into_result().unwrap_err(),
        lane.force_release(&ask.key).await.unwrap_err(),
        lane.inspect(&ask.key).await.unwrap_err(),
    ] {
        assert_eq!((error.kind, error.effect), (ErrorKind::WrongType, Effect::None), "{error}");
    }
    assert_eq!(server.cli(&["get", "s"]), "value");
}

#[tokio::test]
async fn a_peers_lock_without_expiry_is_a_fact_of_its_own() {
    let server = Server::start();
    let lane = server.calls().await;
    server.cli(&["hset", "k", "peer:1", "2"]);
    let reply = lane.call_one(acquire(&OwnerMint::new(), "k")).await.into_result().unwrap();
    assert!(matches!(reply, Outcome::Busy { remaining: Remaining::NoExpiry, .. }));
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again_once() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    for _ in 0..2 {
        server.cli(&["script", "flush"]);
        let ask = acquire(&mint, "k");
        assert!(matches!(lane.call_one(ask.clone()).await.into_result().unwrap(), Outcome::Granted { .. }));
        server.cli(&["script", "flush"]);
        assert!(matches!(
            lane.call_one(release(&ask)).await.into_result().unwrap(),
            Outcome::Released { .. }
        ));
    }
    // Once each script is known, every request is one command.
    for _ in 0..2 {
        server.cli(&["config", "resetstat"]);
        let ask = acquire(&mint, "k");
        lane.call_one(ask.clone()).await.into_result().unwrap();
        lane.call(NodeId(0), (0..100).map(|_| renewal(&ask, TTL)).collect()).await;
        lane.call_one(release(&ask)).await.into_result().unwrap();
    }
    let stats = server.cli(&["info", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:calls=3") && !stats.contains("cmdstat_eval:"), "{stats}");
}

#[tokio::test]
async fn a_command_that_comes_late_is_not_executed() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let mut ask = acquire(&mint, "k");
    lane.call_one(ask.clone()).await.into_result().unwrap();
    // Nothing is sent when the time is over already.
    ask.execute_by = Clock::Boot.now();
    let error = lane.call_one(ask.clone()).await.into_result().unwrap_err();
    assert_eq!((error.kind, error.effect), (ErrorKind::TimedOut, Effect::None));
    // The server stands still for longer than the request may take, and then finds it in its socket.
    server.signal("-STOP");
    let late = acquire(&mint, "late").with_execute_by(Clock::Boot.now() + Duration::from_millis(150));
    let error = lane.call_one(late.clone()).await.into_result().unwrap_err();
    let Effect::Unknown { not_after } = error.effect else { panic!("{error:?}") };
    assert_eq!(error.kind, ErrorKind::TimedOut);
    server.signal("-CONT");
    let Outcome::NotYours { at } = lane.call_one(release(&late)).await.into_result().unwrap() else {
        panic!("executed late")
    };
    assert_eq!(at.is_after(not_after), Some(true));
}

#[tokio::test]
async fn too_late_is_an_answer_and_the_next_try_is_in_time() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let held = acquire(&mint, "held");
    lane.call_one(held.clone()).await.into_result().unwrap();
    // A timer is not finer than 1 ms, so the answer comes before the end of such a short time is noticed. How short it
    // must be depends on the machine.
    let mut micros = (5..).step_by(5);
    let mut very_soon = || Clock::Boot.now() + Duration::from_micros(micros.next().unwrap() % 300);
    let late = until(async || {
        let late = acquire(&mint, "k").with_execute_by(very_soon());
        let answer = lane.call_one(late.clone()).await.into_result();
        if !matches!(answer, Ok(Outcome::TooLate { .. })) {
            lane.call_one(release(&late)).await.into_result().unwrap();
            return None;
        }
        Some(late)
    })
    .await;
    assert!(matches!(lane.call_one(release(&late)).await.into_result().unwrap(), Outcome::NotYours { .. }));
    until(async || {
        let late = renewal(&held, TTL).with_execute_by(very_soon());
        let answer = lane.call(NodeId(0), vec![late]).await.remove(0).outcome;
        matches!(answer, Outcome::TooLate { .. }).then_some(())
    })
    .await;
    assert!(server.cli(&["pttl", "held"]).parse::<u64>().unwrap() <= 30_000);
    let again = lane.call_one(acquire(&mint, "k")).await.into_result().unwrap();
    assert!(matches!(again, Outcome::Granted { .. }), "{again:?}");
}

#[tokio::test]
async fn a_notice_reaches_every_watch() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let ask = acquire(&mint, "k");
    let (mut one, mut two) = (lane.watch(&ask.key), lane.watch(&ask.key));
    while !one.observe().in_force {
        one.changed().await;
    }
    assert!(two.observe().in_force);
    lane.call_one(ask.clone()).await.into_result().unwrap();
    let reply = lane.call_one(release(&ask)).await.into_result().unwrap();
    assert!(matches!(reply, Outcome::Released { listeners: Some(1), .. }), "{reply:?}");
    for watch in [&mut one, &mut two] {
        while watch.observe().notices < 1 {
            watch.changed().await;
        }
        assert_eq!(watch.observe(), WatchState { in_force: true, notices: 1, gaps: 0 });
    }
    drop((one, two));
    // Kept warm: the next watch is in force at once.
    assert!(lane.watch(&ask.key).observe().in_force);
    assert_eq!(server.cli(&["pubsub", "channels"]), "redisson_lock__channel:{k}");
}

#[tokio::test]
async fn a_subscription_ends_some_time_after_its_last_watch() {
    let server = Server::start();
    let mut config = server.config();
    config.notices_warm_ms = 50;
    let lane = open(&leasehold_redis::RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let watches: Vec<_> = (0..2_500).map(|n| lane.watch(&key(&format!("k{n}")))).collect();
    let subscribed =
        || server.cli(&["pubsub", "numpat"]).len() + server.cli(&["pubsub", "channels"]).lines().count();
    for mut watch in watches {
        while !watch.observe().in_force {
            watch.changed().await;
        }
    }
    until(async || (subscribed() <= 1).then_some(())).await;
    let mut watch = lane.watch(&key("k7"));
    while !watch.observe().in_force {
        watch.changed().await;
    }
    assert_eq!(server.cli(&["publish", "redisson_lock__channel:{k7}", "anything"]), "1");
    while watch.observe().notices == 0 {
        watch.changed().await;
    }
}
