//! Acquires and releases of many locks in one command behind proxies that spread keys over servers: no key is ever
//! written on a server that is not its own.

use std::time::{Duration, Instant};

use leasehold::transport::{Call, Op, Outcome};
use leasehold_redis::{Address, RedisConfig};
use leasehold_tests::harness::{
    gateway::{Gateway, Habits, PLAIN, shard_of},
    program_proxy::ProgramProxy,
    redis_server::RedisServer,
};

use super::wrong_answers::OF_ITS_OWN;
use crate::{
    groups::{
        assert_granted, assert_released, call_together, learn, names, release_together, scripts_of, wishes,
    },
    lanes::{Lanes, call},
};

fn servers() -> [RedisServer; 2] {
    [(); 2].map(|()| RedisServer::start().expect("a server"))
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut client = server.client().expect("a connection");
    client.command(&["KEYS", "*"]).expect("a reply").texts()
}

fn assert_each_key_is_on_its_own(servers: &[RedisServer; 2]) {
    for (place, server) in servers.iter().enumerate() {
        for key in keys(server) {
            assert_eq!(shard_of(key.as_bytes(), 2), place, "{key} is on a wrong server");
        }
    }
}

/// Rounds of acquires in groups; an engine that sends each alone finds each lock held, and none afterwards.
async fn exclude_each_other(config: RedisConfig, servers: &[RedisServer; 2]) {
    let [grouping, alone] = [Lanes::open(config.clone()).await, Lanes::open(config).await];
    for round in 0..5 {
        let names = names(&format!("round{round}:"), 100);
        let held = call_together(&grouping, wishes(&grouping, &names)).await;
        assert_granted(&held);
        assert_each_key_is_on_its_own(servers);
        for wish in wishes(&alone, &names) {
            let refused = alone.acquire(&wish).await;
            assert!(matches!(refused, Ok(Outcome::Busy { .. })), "{}: {refused:?}", wish.key.name());
        }
        assert_released(&release_together(&grouping, &held).await);
        for server in servers {
            assert!(keys(server).is_empty(), "{:?}", keys(server));
        }
    }
}

/// The proxies that are accepted: what they do not know is left out, and a script goes to the server of its first key.
#[tokio::test]
async fn s1_no_group_goes_to_a_wrong_server_behind_a_mesh() {
    let unknown: Habits =
        Habits { bare_pong: true, unknown: &["SUBSCRIBE", "INFO", "ROLE", "CLIENT"], ..PLAIN };
    for habits in [PLAIN, unknown, OF_ITS_OWN] {
        let servers = servers();
        let gateway = Gateway::start(&[servers[0].port(), servers[1].port()], habits).expect("a proxy");
        exclude_each_other(RedisConfig::single("127.0.0.1", gateway.port()), &servers).await;
    }
}

/// The proxy says that it is one node of a cluster. The servers behind it are none, so that they refuse no key.
#[tokio::test]
async fn s1_no_group_goes_to_a_wrong_server_behind_one_endpoint_before_several_shards() {
    let servers = servers();
    let habits = Habits { is_cluster: true, ..Habits::default() };
    let gateway = Gateway::start(&[servers[0].port(), servers[1].port()], habits).expect("a proxy");
    exclude_each_other(RedisConfig::cluster([Address::new("127.0.0.1", gateway.port())]), &servers).await;
}

/// As proxies do that keep the keys with one hash tag at one server: the first names have one tag, the next another one.
#[tokio::test]
async fn s1_names_of_one_hash_tag_prove_nothing_of_other_names() {
    let servers = servers();
    let habits = Habits { hash_tags: true, ..PLAIN };
    let gateway = Gateway::start(&[servers[0].port(), servers[1].port()], habits).expect("a proxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    let tag_of = |place| (0..).map(|n| format!("t{n}")).find(|tag| shard_of(tag.as_bytes(), 2) == place);
    let tags = [tag_of(0).expect("one"), tag_of(1).expect("one")];
    for _ in 0..3 {
        let names_of = |tag: &String| names(&format!("{{{tag}}}"), 100);
        assert_granted(&call_together(&lanes, wishes(&lanes, &names_of(&tags[0]))).await);
        // The key of the first name is at the first server.
        let both = [names_of(&tags[0]), names_of(&tags[1])].concat();
        call_together(&lanes, wishes(&lanes, &both)).await;
        for (place, server) in servers.iter().enumerate() {
            let strays: Vec<_> = keys(server)
                .into_iter()
                .filter(|key| !key.contains(&format!("{{{}}}", tags[place])))
                .collect();
            assert!(strays.is_empty(), "{strays:?}");
            server.client().and_then(|mut client| client.command(&["FLUSHALL"])).expect("a reply");
        }
    }
}

#[tokio::test]
async fn behind_haproxy_before_one_server_locks_go_together() {
    let server = RedisServer::start().expect("a server");
    let proxy = ProgramProxy::haproxy(&[server.port()]).expect("HAProxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", proxy.port())).await;
    learn(&lanes).await;
    let mut client = server.client().expect("a connection");
    let before = scripts_of(&mut client);
    let held: Vec<Call> = call_together(&lanes, wishes(&lanes, &names("lock", 100))).await;
    assert_granted(&held);
    let again = held.iter().map(|hold| call(hold, Op::Release)).collect();
    assert_released(&call_together(&lanes, again).await);
    assert_eq!(scripts_of(&mut client) - before, 2);
}

/// A server is added behind the proxy, or takes the place of another, while the connections stay. Groups are wrong until the next
/// check of some keys. From the first answer of another run each lock goes alone.
#[tokio::test]
async fn s1_a_server_that_is_added_or_replaced_behind_a_proxy_ends_groups() {
    for routed in [&[0, 1][..], &[1]] {
        let servers = servers();
        let gateway = Gateway::start(&[servers[0].port(), servers[1].port()], PLAIN).expect("a proxy");
        gateway.route_to(&[0]);
        let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
        learn(&lanes).await;
        let round = async |name: &str| {
            let before = gateway.scripts();
            let held = call_together(&lanes, wishes(&lanes, &names(name, 100))).await;
            let released = release_together(&lanes, &held).await;
            (gateway.scripts() - before, held, released)
        };
        assert!(round("before").await.0 < 20, "two groups, and a few keys that are checked");
        gateway.route_to(routed);
        let patience = Instant::now() + PATIENCE;
        while round("between").await.0 < 200 {
            assert!(Instant::now() < patience, "groups go on to {routed:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for server in &servers {
            server.client().and_then(|mut client| client.command(&["FLUSHALL"])).expect("a reply");
        }
        for number in 0..5 {
            let (scripts, held, released) = round(&number.to_string()).await;
            assert_eq!(scripts, 200);
            assert_granted(&held);
            assert_released(&released);
        }
    }
}

/// The holds of the names that the second server has now are gone. The batches of renewals find none of them for ever.
#[tokio::test]
async fn s1_a_server_that_is_added_behind_a_proxy_keeps_no_hold_of_the_first_alive() {
    let servers = servers();
    let gateway = Gateway::start(&[servers[0].port(), servers[1].port()], PLAIN).expect("a proxy");
    gateway.route_to(&[0]);
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    let place = |name: &str| shard_of(name.as_bytes(), 2);
    let mut names = names("lock", 20);
    names.sort_by_key(|name| place(name));
    let mut holds = Vec::new();
    for name in &names {
        holds.push(lanes.held(name).await);
    }
    gateway.route_to(&[0, 1]);
    let patience = Instant::now() + PATIENCE;
    loop {
        let answers = lanes.renew(&holds.iter().collect::<Vec<_>>()).await;
        let is_lost = |outcome: &Outcome| matches!(outcome, Outcome::NotYours { .. });
        let lost: Vec<_> = holds.iter().zip(&answers).filter(|(_, answer)| is_lost(answer)).collect();
        assert!(lost.iter().all(|(hold, _)| place(hold.key.on_server()) == 1), "{lost:?}");
        if lost.len() == names.iter().filter(|name| place(name) == 1).count() {
            return;
        }
        assert!(Instant::now() < patience, "{lost:?}");
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
