//! Locks through each kind of proxy: taken, renewed, waited for and given back, or refused at the start with the remedy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Engine, transport::LanePurpose};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    gateway::{Gateway, Habits, PLAIN, Refusal},
    polling::holds_within,
    program_proxy::ProgramProxy,
    redis_server::RedisServer,
};

use crate::{
    lanes::{Lanes, open},
    tour::{PREFIX, from_hand_to_hand, tour},
};

fn servers() -> [RedisServer; 2] {
    [(); 2].map(|()| RedisServer::start().expect("a server"))
}

fn ports(servers: &[RedisServer; 2]) -> [u16; 2] {
    [servers[0].port(), servers[1].port()]
}

/// A lease is renewed, waited for and given back, by turns of two engines.
async fn work(config: &RedisConfig) {
    let build = async || {
        let builder = Engine::builder(RedisTransport::new(config.clone()));
        builder.name_prefix(PREFIX).ttl(TTL).build().await.expect("an engine")
    };
    let [first, second] = [build().await, build().await];
    from_hand_to_hand(&first, &second).await;
    let report = second.audit().await;
    println!("{report}");
}

/// No notices, no word of role or run, `TIME` and `PING` from the proxy itself.
const MESH: Habits = Habits {
    own_clock_ahead: Some(AHEAD),
    bare_pong: true,
    unknown: &["SUBSCRIBE", "INFO", "ROLE", "CLIENT", "CONFIG"],
    ..PLAIN
};

/// As twemproxy does: it closes the connection at what it does not know.
const TWEMPROXY: Habits =
    Habits { unknown: &["TIME", "INFO", "ROLE", "CLIENT", "SUBSCRIBE"], refusal: Refusal::Close, ..PLAIN };

#[tokio::test]
async fn a_mesh_that_routes_by_the_first_key_serves_locks() {
    let servers = servers();
    let gateway = Gateway::start(&ports(&servers), MESH).expect("a proxy");
    work(&RedisConfig::single("127.0.0.1", gateway.port())).await;
}

#[tokio::test]
async fn a_cloud_proxy_that_refuses_several_slots_serves_locks() {
    let servers = servers();
    let gateway = Gateway::start(&ports(&servers), super::wrong_answers::OF_ITS_OWN).expect("a proxy");
    work(&RedisConfig::single("127.0.0.1", gateway.port())).await;
}

#[tokio::test]
async fn one_endpoint_before_several_shards_serves_locks() {
    let servers = servers();
    let habits = Habits { is_cluster: true, ..Habits::default() };
    let gateway = Gateway::start(&ports(&servers), habits).expect("a proxy");
    work(&RedisConfig::cluster([Address::new("127.0.0.1", gateway.port())])).await;
}

/// The proxy's clock counts until the first script has answered, no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_the_clock_of_a_proxy_makes_no_command_valid_for_longer() {
    let servers = servers();
    let gateway = Gateway::start(&ports(&servers), MESH).expect("a proxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    lanes.held("first").await;
    let times = || gateway.requests().iter().filter(|request| request[0] == b"TIME").count();
    let before = times();
    assert!(tokio::task::block_in_place(|| holds_within(PATIENCE, || times() > before + 2)));
    let sent = SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_micros();
    lanes.held("second").await;
    let requests = gateway.requests();
    let acquire = requests.iter().rfind(|request| request.get(3).is_some_and(|key| key == b"second"));
    let latest =
        String::from_utf8_lossy(acquire.and_then(|request| request.last()).expect("sent")).into_owned();
    let latest: u128 = latest.parse().expect("a time in µs");
    assert!(latest < sent + (AHEAD / 2).as_micros(), "{} µs late", latest.saturating_sub(sent));
}

#[tokio::test]
async fn a_proxy_that_closes_at_what_it_does_not_know_is_refused_with_the_remedy() {
    let servers = servers();
    let gateway = Gateway::start(&ports(&servers), TWEMPROXY).expect("a proxy");
    is_refused(gateway.port()).await;
}

#[tokio::test]
async fn twemproxy_is_refused_with_the_remedy() {
    let servers = servers();
    let proxy = ProgramProxy::twemproxy(&ports(&servers)).expect("twemproxy");
    is_refused(proxy.port()).await;
}

async fn is_refused(port: u16) {
    let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", port));
    let error = open(&transport, LanePurpose::Calls).await.err().expect("refused");
    println!("{error}");
    assert!(error.detail.contains("twemproxy"), "{error}");
}

/// HAProxy before a master and its replica: everything works, notices included.
#[tokio::test]
async fn haproxy_before_one_master_at_a_time_serves_locks() {
    let [master, replica] = replicated();
    let proxy = ProgramProxy::haproxy(&[master.port(), replica.port()]).expect("HAProxy");
    tour(&RedisConfig::single("127.0.0.1", proxy.port())).await;
}

/// The master is killed and its replica promoted: leases that it has are held through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l5_behind_haproxy_a_promoted_replica_serves_locks() {
    let [mut master, replica] = replicated();
    let proxy = ProgramProxy::haproxy(&[master.port(), replica.port()]).expect("HAProxy");
    let config = RedisConfig::single("127.0.0.1", proxy.port());
    let engine =
        Engine::builder(RedisTransport::new(config)).ttl(2 * PATIENCE).build().await.expect("an engine");
    let lease = engine.lock("kept").acquire().await.expect("a lease");
    let mut told = master.client().expect("a connection");
    let copies = told.command(&["WAIT", "1", "20000"]).expect("a reply").integer();
    assert_eq!(copies, Some(1));
    master.kill().expect("killed");
    let promoted = replica.client().and_then(|mut client| client.command(&["REPLICAOF", "NO", "ONE"]));
    assert!(promoted.expect("a reply").is_ok());
    let next = engine.lock("next").wait(PATIENCE).acquire().await.expect("a lease of the new master");
    assert!(lease.is_held() && lease.renew(2 * PATIENCE).await.is_ok());
    next.release().await.expect("released");
    lease.release().await.expect("released");
}

fn replicated() -> [RedisServer; 2] {
    let [master, replica] = servers();
    let port = master.port().to_string();
    let mut client = replica.client().expect("a connection");
    assert!(client.command(&["REPLICAOF", "127.0.0.1", &port]).expect("a reply").is_ok());
    let in_step = || {
        let info = client.command(&["INFO", "replication"]).expect("a reply");
        info.text().is_some_and(|info| info.contains("master_link_status:up"))
    };
    assert!(holds_within(PATIENCE, in_step), "the replica follows");
    [master, replica]
}

const AHEAD: Duration = Duration::from_secs(5 * 60);
const TTL: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(20);
