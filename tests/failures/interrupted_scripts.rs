//! A server that is stopped inside a script: the script looked at the clock before the stop, in time, and writes when the
//! server goes on, after its latest execution time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::Engine;
use leasehold_tests::harness::{
    deployment::Deployment,
    monitor::{Line, Monitor, Script, scripts, server_micros},
    node::Node,
    redis_server::RedisServer,
    resp::Value,
    server_version::ServerVersion,
};
use tokio::task::JoinSet;

use crate::{
    commands::Kind,
    fixture::{Fixture, until},
};

/// Acquires of the engine, at random moments; the caller of each has given up long before the server goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_an_acquire_that_a_stop_interrupts_is_closed_by_a_release() {
    let fixture = Fixture::new();
    slow_down_scripts(&fixture);
    let engine = fixture.builder().ttl(TTL).command_timeout(TIMEOUT).build().await.expect("an engine");
    let over = Arc::<AtomicBool>::default();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        callers.spawn(take_turns(engine.clone(), format!("k{number}"), over.clone()));
    }
    let server = fixture.server.clone();
    let found = tokio::task::spawn_blocking(move || stop_until_an_acquire_is_interrupted(&server));
    let (mut monitor, mut lines, late) = found.await.expect("no panic");
    over.store(true, Ordering::SeqCst);
    callers.join_all().await;
    until("every owner is closed", || engine.snapshot().closing == 0).await;
    until("no key is left", || fixture.is_empty()).await;
    lines.extend(monitor.take());
    let written = late.calls.last().expect("its writes").at;
    let after = Duration::from_micros(removed_at(&lines, &late.words[3], &late.words[5], written) - written);
    println!("{} was granted {} late, and released {after:?} later", late.words[5], late.words[3]);
    assert!(after < TTL / 2, "its ttl ended it, not a release: {after:?}");
}

/// When a release of this owner took its hold away, after that time.
fn removed_at(lines: &[Line], key: &str, owner: &str, after: u64) -> u64 {
    let removes = |line: &&Line| line.by_script && line.at > after && line.words == ["hdel", key, owner];
    lines.iter().find(removes).expect("a release of the same owner after its acquire").at
}

/// The server compares the key of each call with all patterns of the user's rights. So it is inside of scripts for most of
/// its time, and a stop comes there.
fn slow_down_scripts(fixture: &Fixture) {
    let mut rights: Vec<String> = ["ACL", "SETUSER", "default", "resetkeys"].map(String::from).into();
    rights.extend((0..PATTERNS).map(|number| format!("~other-{number}-*")));
    rights.push("~k*".to_owned());
    assert!(fixture.raw().command(&rights).expect("a reply").is_ok());
}

/// The caller of each acquire waits for less than a stop lasts.
async fn take_turns(engine: Engine, name: String, over: Arc<AtomicBool>) {
    while !over.load(Ordering::SeqCst) {
        drop(engine.lock(&name).wait(TIMEOUT).acquire().await);
    }
}

fn stop_until_an_acquire_is_interrupted(server: &Arc<Node>) -> (Monitor, Vec<Line>, Script) {
    let mut monitor = Monitor::start(server);
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < FOUND_WITHIN, "no stop came inside of an acquire");
        thread::sleep(Duration::from_micros(rand::random_range(0..20_000)));
        server.stop().expect("stopped");
        thread::sleep(3 * TIMEOUT);
        let woken = server_micros();
        server.cont().expect("continued");
        let lines = monitor.take();
        if let Some(late) = scripts(&lines).into_iter().find(|script| is_interrupted_acquire(script, woken)) {
            return (monitor, lines, late);
        }
    }
}

/// It began in time, and has written after its latest execution time.
fn is_interrupted_acquire(script: &Script, woken: u64) -> bool {
    let words: Vec<Vec<u8>> = script.words.iter().map(|word| word.clone().into_bytes()).collect();
    if Kind::of(&words) != Some(Kind::Acquire) || script.began >= woken {
        return false;
    }
    let latest: u64 = script.words[6].parse().expect("a time");
    script.calls.iter().any(|call| call.command() == "HSET" && call.at >= woken && call.at > latest)
}

/// On each server: a release afterwards ends the hold, and until then it lasts at least as long as its owner counts on.
#[test]
fn s5_a_renewal_that_a_stop_interrupts_lasts_for_its_ttl_and_is_released() {
    for version in ServerVersion::ALL {
        let servers = Deployment::single_proxied(&RedisServer::builder().version(version)).expect("a server");
        let server = servers.master_of("k0").expect("a master");
        let late = (0..TRIES).find_map(|_| interrupted_renewal(&server));
        let (look, key) = late.unwrap_or_else(|| panic!("no stop came inside of a renewal on {version:?}"));
        let expiry = expiry(&server, &key);
        println!("{version:?}: {key} expires {:?} after the look", Duration::from_micros(expiry - look));
        assert!(expiry + micros(MARGIN) >= look + micros(TTL), "{version:?}: {look} {expiry}");
        let owner = key.replace('k', "u:");
        let released = ["EVAL", RELEASE, "1", &key, &owner, "channel", "publish"];
        assert_eq!(numbers(&server.command(&released).expect("a reply"))[0], 1, "{version:?}: released");
        assert_eq!(server.command(&["EXISTS", &key]).expect("a reply").integer(), Some(0), "{version:?}");
    }
}

/// Sends one renewal of many locks and stops the server. If that came in the middle: the time of the script's look, and
/// a lock that was renewed after the latest execution time.
fn interrupted_renewal(server: &Arc<Node>) -> Option<(u64, String)> {
    let (count, ttl) = (LOCKS.to_string(), TTL.as_millis().to_string());
    server.command(&["EVAL", HOLD, "0", &count]).expect("a reply");
    let latest = server_micros() + micros(TIMEOUT);
    let keys = (0..LOCKS).map(|number| format!("k{number}").into_bytes());
    let mut renewal: Vec<Vec<u8>> = [b"EVAL".to_vec(), RENEW.into(), count.clone().into()].into();
    renewal.extend(keys.chain([latest.to_string().into(), ttl.into(), b"u:".to_vec(), packed()]));
    let monitor = Monitor::start(server);
    let mut client = server.client().expect("a connection");
    client.send(&renewal).expect("sent");
    thread::sleep(Duration::from_micros(rand::random_range(0..20_000)));
    server.stop().expect("stopped");
    thread::sleep(2 * TIMEOUT);
    let woken = server_micros();
    server.cont().expect("continued");
    let reply = numbers(&client.read().expect("a reply"));
    let lines = monitor.end();
    let late = |line: &&Line| line.command() == "PEXPIREAT" && line.at >= woken && line.at > latest;
    let late = lines.iter().find(late)?;
    assert!(
        reply[0] == 1 && reply[1] <= i64::try_from(latest).expect("a time"),
        "its look was in time: {reply:?}"
    );
    Some((u64::try_from(reply[1]).expect("a time"), late.words[1].clone()))
}

fn packed() -> Vec<u8> {
    let mut packed = Vec::new();
    rmp::encode::write_array_len(&mut packed, u32::try_from(LOCKS).expect("few")).expect("memory");
    (0..LOCKS).for_each(|number| rmp::encode::write_str(&mut packed, &number.to_string()).expect("memory"));
    packed
}

/// When a key expires at the earliest, by the server's clock in µs.
fn expiry(server: &Node, key: &str) -> u64 {
    let asked = server_micros();
    let left = server.command(&["PTTL", key]).expect("a reply").integer().expect("milliseconds");
    asked + u64::try_from(left).expect("a key with an expiry") * 1_000
}

/// The numbers that an answer begins with.
fn numbers(reply: &Value) -> Vec<i64> {
    reply.items().iter().map_while(Value::integer).collect()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("a short time")
}

const RENEW: &str = include_str!("../../transports/redis/scripts/renew.lua");
const RELEASE: &str = include_str!("../../transports/redis/scripts/release.lua");
/// Makes the locks that a renewal names.
const HOLD: &str = "for n = 0, ARGV[1] - 1 do redis.call('hset', 'k' .. n, 'u:' .. n, 1) \
                    redis.call('pexpire', 'k' .. n, 30000) end";
/// Long beside the whole test: what is gone earlier was released.
const TTL: Duration = Duration::from_secs(60);
/// Of a lease with this ttl (GUARANTEES.md).
const MARGIN: Duration = Duration::from_secs(3);
/// A stop lasts longer, and no caller waits for longer.
const TIMEOUT: Duration = Duration::from_millis(50);
const CALLERS: usize = 8;
/// A call of a script takes about a tenth of a millisecond with them.
const PATTERNS: usize = 5_000;
/// A script that runs for some ten milliseconds.
const LOCKS: usize = 5_000;
const TRIES: usize = 100;
const FOUND_WITHIN: Duration = Duration::from_secs(120);
