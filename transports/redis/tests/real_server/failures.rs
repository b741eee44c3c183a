//! A real server that dies, hangs, restarts, refuses or lies about itself.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{fake, server::*};
use leasehold::{
    clock::Clock,
    owner::OwnerMint,
    routing::topology::{Node, NodeId},
    transport::*,
};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};

fn node(lane: &Arc<dyn Lane>) -> Node {
    lane.topology().borrow().node(NodeId(0)).unwrap().clone()
}

async fn granted(lane: &Arc<dyn Lane>, mint: &OwnerMint, name: &str) -> Option<Call> {
    let ask = acquire(mint, name);
    match lane.call_one(ask.clone()).await.into_result() {
        Ok(Outcome::Granted { .. }) => Some(ask),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

#[tokio::test]
async fn a_restart_is_a_new_epoch_for_both_lanes() {
    let mut server = Server::start();
    let transport = server.transport();
    let calls = open(&transport, LanePurpose::Calls).await.unwrap();
    let renewals = open(&transport, LanePurpose::Renewals).await.unwrap();
    let mint = OwnerMint::new();
    let mut watch = calls.watch(&key("k"));
    while !watch.observe().in_force {
        watch.changed().await;
    }
    let before = granted(&calls, &mint, "k").await.unwrap();
    let (old, first) = (node(&calls), node(&calls).clock);
    assert_eq!(first, node(&renewals).clock);
    assert!(old.connected && old.up_since.is_some());
    server.kill();
    // Not connected: an answer at once, and certainly no effect.
    let error = until(async || {
        let error = calls.call_one(acquire(&mint, "k")).await.into_result().unwrap_err();
        (error.effect == Effect::None).then_some(error)
    })
    .await;
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.detail.contains(&server.port.to_string()), "{error}");
    assert!(!node(&calls).connected);
    let failed = calls.call(NodeId(0), vec![renewal(&before, TTL)]).await.remove(0).outcome;
    assert!(matches!(failed, Outcome::Failed(error) if error.effect == Effect::None));
    server.launch();
    until(async || granted(&calls, &mint, "k").await).await;
    until(async || node(&renewals).connected.then_some(())).await;
    let (now, new) = (Clock::Boot.now(), node(&calls));
    assert_eq!(new.clock.epoch, first.epoch + 1);
    assert_eq!(new.clock, node(&renewals).clock);
    assert!(new.connected && new.uptime(now).unwrap() < Duration::from_secs(5));
    // The watch missed what happened meanwhile, and says so.
    while !watch.observe().in_force {
        watch.changed().await;
    }
    assert!(watch.observe().gaps >= 1);
}

#[tokio::test]
async fn a_killed_connection_is_replaced_within_the_same_epoch() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let (first, mut watch) = (node(&lane).clock, lane.watch(&key("k")));
    while !watch.observe().in_force {
        watch.changed().await;
    }
    server.cli(&["client", "kill", "type", "normal"]);
    server.cli(&["client", "kill", "type", "pubsub"]);
    until(async || granted(&lane, &mint, "k").await).await;
    until(async || (watch.observe().in_force && watch.observe().gaps == 1).then_some(())).await;
    assert_eq!(node(&lane).clock, first);
}

#[tokio::test]
async fn a_stopped_server_is_noticed_and_its_requests_are_unknown() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    granted(&lane, &mint, "warm").await.unwrap();
    server.signal("-STOP");
    let start = Clock::Boot.now();
    let ask = acquire(&mint, "k").with_execute_by(start + SECOND * 60);
    let error = lane.call_one(ask.clone()).await.into_result().unwrap_err();
    let took = Clock::Boot.now() - start;
    eprintln!("stopped server noticed after {took:?}: {error}");
    assert!(took > Duration::from_millis(550) && took < SECOND * 20, "{took:?}");
    assert!(matches!(error.effect, Effect::Unknown { .. }), "{error:?}");
    assert_eq!(error.kind, ErrorKind::Unreachable);
    server.signal("-CONT");
    until(async || granted(&lane, &mint, "other").await).await;
}

#[tokio::test]
async fn a_server_that_is_busy_for_half_a_second_keeps_its_connection() {
    let server = Server::start();
    let lane = server.calls().await;
    let id = server
        .cli(&["client", "list"])
        .lines()
        .find(|line| line.contains("leasehold-calls"))
        .map(str::to_owned);
    let mint = OwnerMint::new();
    server.signal("-STOP");
    let ask = acquire(&mint, "k").with_execute_by(Clock::Boot.now() + Duration::from_secs(2));
    let waiting = tokio::spawn({
        let lane = lane.clone();
        async move { lane.call_one(ask).await.into_result() }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.signal("-CONT");
    assert!(matches!(waiting.await.unwrap(), Ok(Outcome::Granted { .. })));
    let id = id.unwrap().split(' ').next().unwrap().to_owned();
    assert!(server.cli(&["client", "list"]).contains(&id));
}

#[tokio::test]
async fn a_full_socket_does_not_keep_a_dead_connection_alive() {
    let server = Server::start();
    let mut config = server.config();
    config.in_flight_max = 100_000;
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mint = OwnerMint::new();
    server.signal("-STOP");
    let start = Clock::Boot.now();
    let name = "x".repeat(8_000);
    let asks: Vec<_> = (0..3_000)
        .map(|_| {
            let (lane, ask) = (lane.clone(), acquire(&mint, &name).with_execute_by(start + SECOND * 60));
            tokio::spawn(async move { lane.call_one(ask).await.into_result() })
        })
        .collect();
    for ask in asks {
        assert!(matches!(ask.await.unwrap().unwrap_err().effect, Effect::Unknown { .. }));
    }
    let took = Clock::Boot.now() - start;
    eprintln!("24 MB to a stopped server: all answered after {took:?}");
    // The command timeout ends them, not their limit of a minute; a busy machine takes seconds to encode 24 MB.
    assert!(took < SECOND * 20, "{took:?}");
    let sockets = || std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let established = |port: u16| {
        let remote = format!("0100007F:{port:04X} 01 ");
        sockets().lines().filter(|line| line.contains(&remote)).count()
    };
    server.signal("-CONT");
    until(async || granted(&lane, &mint, "other").await).await;
    until(async || (established(server.port) <= 2).then_some(())).await;
}

#[tokio::test]
async fn a_wrong_password_is_final_and_is_not_shown() {
    let server = Server::start_with(&["--requirepass", "hunter2-right"]);
    let with = |password: Option<Password>| {
        let mut config = server.config();
        config.password = password;
        RedisTransport::new(config)
    };
    let wrong = with(Some(Password::Value(Secret::new("hunter2"))));
    for (transport, field) in [(wrong, "`password` given as a value"), (with(None), "no `password`")] {
        for purpose in [LanePurpose::Calls, LanePurpose::Renewals] {
            let error = open(&transport, purpose).await.err().unwrap();
            assert_eq!((error.kind, error.effect), (ErrorKind::Denied, Effect::None), "{error}");
            assert!(error.kind.is_final() && error.detail.contains(field), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }
    let right = with(Some(Password::Value(Secret::new("hunter2-right"))));
    granted(&open(&right, LanePurpose::Calls).await.unwrap(), &OwnerMint::new(), "k").await.unwrap();
}

#[tokio::test]
async fn a_password_that_the_server_does_not_have_is_final_and_is_not_shown() {
    let server = Server::start();
    let mut config = server.config();
    config.password = Some(Password::Value(Secret::new("hunter2")));
    let error = open(&RedisTransport::new(config), LanePurpose::Calls).await.err().unwrap();
    assert!(error.kind == ErrorKind::Misconfigured && error.kind.is_final(), "{error}");
    assert!(error.detail.contains("leave the password out"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_rotated_password_file_is_read_at_the_next_connect() {
    let server = Server::start_with(&["--requirepass", "first"]);
    let file = std::env::temp_dir().join(format!("leasehold-rotate-{}", server.port));
    std::fs::write(&file, "first\n").unwrap();
    let mut config = server.config();
    config.password = Some(Password::File(file.clone()));
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mint = OwnerMint::new();
    std::fs::write(&file, "second\n").unwrap();
    let admin = |args: &[&str]| server.cli(&[&["-a", "first", "--no-auth-warning"], args].concat());
    admin(&["config", "set", "requirepass", "second"]);
    admin(&["client", "kill", "type", "normal"]);
    let kill = |args: &[&str]| server.cli(&[&["-a", "second", "--no-auth-warning"], args].concat());
    kill(&["client", "kill", "type", "normal"]);
    until(async || granted(&lane, &mint, "k").await).await;
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_named_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (host, port, kinds) in [
        ("127.0.0.1", silent.local_addr().unwrap().port(), [ErrorKind::TimedOut, ErrorKind::TimedOut]),
        ("127.0.0.1", closed, [ErrorKind::Unreachable, ErrorKind::Unreachable]),
        ("no-such-host.invalid", 6379, [ErrorKind::Unreachable, ErrorKind::TimedOut]),
    ] {
        let start = Clock::Boot.now();
        let transport = RedisTransport::new(RedisConfig::single(host, port));
        let error = open(&transport, LanePurpose::Calls).await.err().unwrap();
        eprintln!("{} after {:?}", error, Clock::Boot.now() - start);
        assert!(kinds.contains(&error.kind), "{error:?}");
        assert_eq!(error.effect, Effect::None);
        assert!(error.detail.contains(&format!("{host}:{port}")), "{error}");
        assert!(Clock::Boot.now() - start < Duration::from_millis(2_500));
    }
}

#[tokio::test]
async fn a_replica_is_no_server_for_locks() {
    let master = Server::start();
    let server = Server::start();
    let lane = server.calls().await;
    let first = node(&lane).clock;
    server.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]);
    let mint = OwnerMint::new();
    let error = until(async || {
        let error = lane.call_one(acquire(&mint, "k")).await.into_result().err()?;
        error.detail.contains("no master").then_some(error)
    })
    .await;
    assert_eq!(error.effect, Effect::None);
    let error = open(&server.transport(), LanePurpose::Calls).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotReady, "{error}");
    server.cli(&["replicaof", "no", "one"]);
    until(async || granted(&lane, &mint, "k").await).await;
    // What it holds may have been replaced: a new epoch, though the run is the same.
    assert_eq!(node(&lane).clock.epoch, first.epoch + 1);
}

#[tokio::test]
async fn a_server_that_hides_its_run_is_new_after_every_loss() {
    let server = Server::start();
    server.cli(&["acl", "setuser", "default", "-info", "-role", "-client|setname", "-client|id"]);
    let transport = server.transport();
    let calls = open(&transport, LanePurpose::Calls).await.unwrap();
    let renewals = open(&transport, LanePurpose::Renewals).await.unwrap();
    let first = node(&calls).clock;
    assert_eq!((first, node(&calls).up_since), (node(&renewals).clock, None));
    server.cli(&["client", "kill", "type", "normal"]);
    until(async || (node(&calls).clock != first && node(&calls).connected).then_some(())).await;
    until(async || (node(&calls).clock == node(&renewals).clock && node(&renewals).connected).then_some(()))
        .await;
    let second = node(&calls).clock.epoch;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((node(&calls).clock.epoch, node(&renewals).clock.epoch), (second, second));
    assert!(second <= first.epoch + 2, "{second}");
}

#[tokio::test]
async fn out_of_memory_refuses_the_acquire_and_nothing_else() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let held = granted(&lane, &mint, "k").await.unwrap();
    server.cli(&["config", "set", "maxmemory", "1"]);
    let error = lane.call_one(acquire(&mint, "other")).await.into_result().unwrap_err();
    assert_eq!((error.kind, error.effect), (ErrorKind::NotReady, Effect::None), "{error}");
    let answer = lane.call(NodeId(0), vec![renewal(&held, TTL * 2)]).await.remove(0).outcome;
    assert!(matches!(answer, Outcome::Renewed { .. }), "{answer:?}");
    assert!(matches!(lane.call_one(release(&held)).await.into_result().unwrap(), Outcome::Released { .. }));
    assert_eq!(server.cli(&["dbsize"]), "0");
}

/// Every right that the scripts use. `evalsha` and `eval` go together: with one of them the other is asked for.
const RIGHTS: [&str; 12] = [
    "evalsha",
    "eval",
    "time",
    "hexists",
    "pttl",
    "hset",
    "pexpire",
    "pexpireat",
    "hdel",
    "publish",
    "hlen",
    "del",
];

#[tokio::test]
async fn no_missing_right_and_no_pair_of_them_leaves_a_key_without_expiry() {
    let server = Server::start();
    let lane = server.calls().await;
    let mint = OwnerMint::new();
    let held = granted(&lane, &mint, "held").await.unwrap();
    let pairs =
        RIGHTS.iter().enumerate().flat_map(|(n, one)| RIGHTS[n..].iter().map(move |other| [*one, *other]));
    for (n, missing) in pairs.enumerate() {
        server.cli(&["acl", "setuser", "default", &format!("-{}", missing[0]), &format!("-{}", missing[1])]);
        let ask = acquire(&mint, &format!("k{n}"));
        let answer = lane.call_one(ask.clone()).await.into_result();
        // `hexists` is asked only of a key that exists; `pexpireat` is what renewals need.
        let unneeded = ["publish", "eval", "hlen", "del", "hexists", "pexpireat"];
        let needed = missing.iter().any(|right| !unneeded.contains(right));
        match (&answer, needed) {
            (Err(error), true) => {
                assert_eq!((error.kind, error.effect), (ErrorKind::Denied, Effect::None), "{error}")
            }
            (Ok(Outcome::Granted { .. }), false) => {}
            _ => panic!("{missing:?}: {answer:?}"),
        }
        let renewed = lane.call(NodeId(0), vec![renewal(&held, TTL)]).await.remove(0).outcome;
        let released = lane.call_one(release(&ask)).await.into_result();
        if let (true, Ok(reply)) = (missing.contains(&"publish"), &released) {
            assert!(matches!(reply, Outcome::Released { listeners: None, .. } | Outcome::NotYours { .. }));
        }
        for error in [released.err(), if let Outcome::Failed(error) = renewed { Some(error) } else { None }] {
            assert!(
                error.is_none_or(|error| error.effect == Effect::None && error.kind == ErrorKind::Denied)
            );
        }
        for name in server.cli(&["keys", "*"]).lines() {
            assert_ne!(server.cli(&["ttl", name]), "-1", "{missing:?} left {name}");
        }
        server.cli(&["acl", "setuser", "default", "+@all"]);
        server.cli(&["del", &format!("k{n}")]);
        assert_eq!(server.cli(&["dbsize"]), "1", "{missing:?}");
    }
}

#[tokio::test]
async fn the_minimal_rule_of_the_readme_is_enough() {
    let server = Server::start();
    let readme = include_str!("../../README.md");
    let rule = readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER leasehold ")).unwrap();
    let rule = rule.replace(">secret", ">hunter2");
    let rule: Vec<_> = rule.split(' ').collect();
    assert_eq!(server.cli(&[&["acl", "setuser", "leasehold"], &rule[..]].concat()), "OK");
    let mut config = server.config();
    (config.username, config.password) =
        (Some("leasehold".into()), Some(Password::Value(Secret::new("hunter2"))));
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let ask = granted(&lane, &OwnerMint::new(), "locks:k").await.unwrap();
    let mut watch = lane.watch(&ask.key);
    while !watch.observe().in_force {
        watch.changed().await;
    }
    let answer = lane.call(NodeId(0), vec![renewal(&ask, TTL * 2)]).await.remove(0).outcome;
    assert!(matches!(answer, Outcome::Renewed { .. }));
    assert_eq!(lane.inspect(&ask.key).await.unwrap().holds.len(), 1);
    let reply = lane.call_one(release(&ask)).await.into_result().unwrap();
    assert!(matches!(reply, Outcome::Released { listeners: Some(1), .. }));
    assert!(!lane.force_release(&ask.key).await.unwrap());
    assert!(node(&lane).up_since.is_some());
    assert!(server.cli(&["acl", "log"]).is_empty(), "{}", server.cli(&["acl", "log"]));
}

#[tokio::test]
async fn without_the_right_to_channels_there_are_locks_but_no_notices() {
    let server = Server::start();
    server.cli(&["acl", "setuser", "u", "on", ">hunter2", "~*", "+@all", "resetchannels"]);
    let mut config = server.config();
    (config.username, config.password) = (Some("u".into()), Some(Password::Value(Secret::new("hunter2"))));
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mut watch = lane.watch(&key("k"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!watch.observe().in_force);
    let ask = granted(&lane, &OwnerMint::new(), "k").await.unwrap();
    assert!(matches!(
        lane.call_one(release(&ask)).await.into_result().unwrap(),
        Outcome::Released { listeners: None, .. }
    ));
}

#[tokio::test]
async fn what_may_be_in_flight_is_bounded() {
    let server = Server::start();
    let mut config = server.config();
    config.in_flight_max = 1;
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mint = OwnerMint::new();
    granted(&lane, &mint, "warm").await.unwrap();
    server.signal("-STOP");
    let ask = |name| acquire(&mint, name).with_execute_by(Clock::Boot.now() + Duration::from_millis(300));
    let (first, second) = tokio::join!(lane.call_one(ask("a")), lane.call_one(ask("b")));
    server.signal("-CONT");
    assert!(matches!(first.into_result().unwrap_err().effect, Effect::Unknown { .. }));
    let second = second.into_result().unwrap_err();
    assert_eq!((second.kind, second.effect), (ErrorKind::NotReady, Effect::None), "{second}");
}

#[tokio::test]
async fn a_dropped_lane_leaves_nothing() {
    let server = Server::start();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let ours = || server.cli(&["client", "list"]).lines().filter(|line| line.contains("leasehold")).count();
    let before = tasks();
    let transport = server.transport();
    let (calls, renewals) = (
        open(&transport, LanePurpose::Calls).await.unwrap(),
        open(&transport, LanePurpose::Renewals).await.unwrap(),
    );
    let watch = calls.watch(&key("k"));
    assert_eq!(ours(), 3, "{}", server.cli(&["client", "list"]));
    drop((calls, renewals));
    until(async || (tasks() == before && ours() == 0).then_some(())).await;
    drop(watch);
    // One that is dropped while it connects, too.
    server.signal("-STOP");
    let opening =
        tokio::time::timeout(Duration::from_millis(100), open(&transport, LanePurpose::Calls)).await;
    assert!(opening.is_err());
    until(async || (tasks() == before).then_some(())).await;
    server.signal("-CONT");
    until(async || (ours() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_reply_that_makes_no_sense_is_unknown_and_ends_the_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let port = fake::serve(move |words| {
        counted.fetch_add(usize::from(words[0] == "TIME"), Ordering::Relaxed);
        fake::healthy(words).unwrap_or_else(|| "*2\r\n:1\r\n+soon\r\n".into())
    });
    let lane = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Renewals)
        .await
        .unwrap();
    let mint = OwnerMint::new();
    let error = lane.call_one(acquire(&mint, "k")).await.into_result().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(matches!(error.effect, Effect::Unknown { .. }));
    until(async || (connections.load(Ordering::Relaxed) >= 2 && node(&lane).connected).then_some(())).await;
    let answer = lane.call(NodeId(0), vec![renewal(&acquire(&mint, "k"), TTL)]).await.remove(0).outcome;
    assert!(matches!(answer, Outcome::Failed(error) if matches!(error.effect, Effect::Unknown { .. })));
}

#[tokio::test]
async fn an_error_that_proves_nothing_is_unknown_and_a_lost_reply_too() {
    for (reply, kind) in
        [("-ERR Error running script: who knows\r\n", ErrorKind::Protocol), ("", ErrorKind::TimedOut)]
    {
        let port = fake::serve(move |words| fake::healthy(words).unwrap_or_else(|| reply.into()));
        let lane = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Renewals)
            .await
            .unwrap();
        let ask = acquire(&OwnerMint::new(), "k");
        let asked = ask.clone().with_execute_by(Clock::Boot.now() + Duration::from_millis(200));
        let error = lane.call_one(asked).await.into_result().unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(matches!(error.effect, Effect::Unknown { .. }));
        let error = lane.call_one(release(&ask)).await.into_result().unwrap_err();
        assert!(matches!(error.effect, Effect::Unknown { .. }));
        // Reading has no effect.
        assert_eq!(lane.inspect(&ask.key).await.unwrap_err().effect, Effect::None);
    }
}

#[tokio::test]
async fn a_server_that_offers_nothing_but_scripts_and_time_will_do() {
    let port = fake::serve(|words| match words[0].as_str() {
        "PING" | "TIME" => fake::healthy(words).unwrap(),
        "EVAL" | "EVALSHA" => "*2\r\n:1\r\n:1795250671168790\r\n".into(),
        _ => "-ERR unknown command\r\n".into(),
    });
    let lane = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Renewals)
        .await
        .unwrap();
    assert_eq!(node(&lane).up_since, None);
    granted(&lane, &OwnerMint::new(), "k").await.unwrap();
}

#[tokio::test]
async fn a_new_run_seen_by_one_lane_closes_the_other_lanes_connection() {
    let run = Arc::new(AtomicUsize::new(1));
    let shown = run.clone();
    let port = fake::serve(move |words| match words[0].as_str() {
        "INFO" => {
            let info = format!("run_id:{}\r\nuptime_in_seconds:9\r\n", shown.load(Ordering::Relaxed));
            format!("${}\r\n{info}\r\n", info.len())
        }
        _ => fake::healthy(words).unwrap_or_else(|| "-ERR unknown command\r\n".into()),
    });
    let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
    let first = open(&transport, LanePurpose::Renewals).await.unwrap();
    assert_eq!(node(&first).clock.epoch, 1);
    run.store(2, Ordering::Relaxed);
    let second = open(&transport, LanePurpose::Renewals).await.unwrap();
    assert_eq!(node(&second).clock.epoch, 2);
    until(async || (node(&first).clock.epoch == 2 && node(&first).connected).then_some(())).await;
    // Up since we saw it, whatever it claims.
    assert!(node(&first).uptime(Clock::Boot.now()).unwrap() < Duration::from_secs(5));
    // Each lane measures its own round trip.
    let all_else = |lane| {
        let mut node = node(lane);
        node.round_trip = None;
        node
    };
    assert_eq!(all_else(&first), all_else(&second));
}
