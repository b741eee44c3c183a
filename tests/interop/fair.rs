//! Fair locks on both sides: one line for the callers of both, in the order of their arrival.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold::{Engine, ReleaseError};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    deployment::Topology, length, polling::holds_within, resp::Value, talker::Talker,
};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SOON, Side};

leasehold_tests::on_every_topology!(
    l8_mixed_callers_are_served_in_the_order_of_their_arrival,
    l2_java_unlocks_a_fair_lock_and_we_are_granted_by_one_command,
    l2_we_release_a_fair_lock_and_java_is_granted_by_one_command,
    s1_java_and_we_add_to_a_number_under_a_fair_lock,
    java_forces_our_fair_lock_and_we_force_javas,
    f20_a_caller_of_ours_that_gives_up_leaves_no_dead_head_to_java,
    f7_a_fair_lock_of_ours_that_has_gone_is_not_released_in_silence,
    l1_a_jvm_that_halts_in_the_line_costs_its_own_wait,
    f6_a_process_of_ours_that_is_killed_at_the_head_costs_java_five_seconds,
);

/// At full length 200 callers, 100 of each side.
async fn l8_mixed_callers_are_served_in_the_order_of_their_arrival(topology: Topology) {
    let callers = if topology == Topology::Single || length::is_long() { 200 } else { 40 };
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let first = fixture.engine.fair_lock(&name).acquire().await.expect("a free lock");
    let served = Arc::new(Mutex::new(Vec::new()));
    let (mut ours, mut javas) = (JoinSet::new(), Vec::new());
    for n in 0..callers {
        if n % 2 == 0 {
            let (acquire, served) = (fixture.engine.fair_lock(&name).acquire(), served.clone());
            ours.spawn(async move {
                let lease = acquire.await.expect("our turn");
                served.lock().expect("no panic").push(n);
                lease.release().await.expect("ours to the end");
            });
        } else {
            javas.push((n, fixture.java.give(&format!("lock t{n} fair:{name}"))));
        }
        until_in_line(&mut fixture, n + 1);
    }
    first.release().await.expect("ours to the end");
    // Each is answered when its turn comes, and holds the lock until its number is written down.
    for (n, given) in javas {
        assert_eq!(fixture.java.answer(given, DONE_BY).as_deref(), Ok(""));
        served.lock().expect("no panic").push(n);
        java(&fixture, &format!("unlock t{n} fair:{name}"));
    }
    ours.join_all().await;
    assert_eq!(*served.lock().expect("no panic"), (0..callers).collect::<Vec<_>>());
    assert_eq!((fixture.pttl(), in_line(&mut fixture)), (-2, 0), "nothing is left");
}

async fn l2_java_unlocks_a_fair_lock_and_we_are_granted_by_one_command(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    java(&fixture, &format!("lock a fair:{name}"));
    let lock = fixture.engine.fair_lock(&name);
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    until_head_listens(&mut fixture);
    fixture.next_ask(); // the next beat is a second away
    let before = Instant::now();
    java(&fixture, &format!("unlock a fair:{name}"));
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(fixture.asks(Side::Ours, Some(before)).len(), 1);
    lease.release().await.expect("ours to the end");
}

async fn l2_we_release_a_fair_lock_and_java_is_granted_by_one_command(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fair_lock(&name).acquire().await.expect("a free lock");
    assert_eq!(java(&fixture, &format!("trylock a fair:{name} 0")), "false", "we exclude Java");
    let waiting = fixture.java.give(&format!("lock b fair:{name}"));
    until_head_listens(&mut fixture);
    tokio::time::sleep(SETTLED).await;
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(fixture.asks(Side::Java, Some(before)).len(), 1, "one try of Java's");
    java(&fixture, &format!("unlock b fair:{name}"));
    assert_eq!(fixture.pttl(), -2);
}

/// Whoever is let in beside another loses an update.
async fn s1_java_and_we_add_to_a_number_under_a_fair_lock(topology: Topology) {
    let rounds = if topology == Topology::Single || length::is_long() { 50 } else { 20 };
    let mut fixture = Fixture::new(topology, TTL).await;
    let (name, counter) = (fixture.name.clone(), fixture.counter());
    let add = |thread| format!("increment t{thread} fair:{name} {counter} {rounds}");
    let given: Vec<_> = (0..HANDS).map(|thread| fixture.java.give(&add(thread))).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..HANDS {
        let master = fixture.servers.master_of(&counter).expect("a master");
        let mut client = master.client().expect("a connection");
        let (lock, counter) = (fixture.engine.fair_lock(&name), counter.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                let lease = lock.acquire().await.expect("our turn");
                let read = client.command(&["GET", &counter]).expect("a reply").text();
                let number: u64 = read.map_or(0, |text| text.parse().expect("a number"));
                client.command(&["SET", &counter, &(number + 1).to_string()]).expect("a reply");
                lease.release().await.expect("ours to the end");
            }
        });
    }
    tasks.join_all().await;
    for given in given {
        let done = fixture.java.answer(given, DONE_BY).expect("Java's increments");
        assert!(done.starts_with(&format!("{rounds} ")), "{done}");
    }
    let total = fixture.raw.command(&["GET", &counter]).expect("a reply").text();
    assert_eq!(total, Some((2 * HANDS * rounds).to_string()));
    assert_eq!((fixture.pttl(), fixture.engine.snapshot().lost, in_line(&mut fixture)), (-2, 0, 0));
}

async fn java_forces_our_fair_lock_and_we_force_javas(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lock = fixture.engine.fair_lock(&name);
    let lease = lock.acquire().await.expect("a free lock");
    let waiting = tokio::spawn(other_engine(&fixture).await.fair_lock(&name).acquire());
    until_head_listens(&mut fixture);
    let before = Instant::now();
    assert_eq!(java(&fixture, &format!("force a fair:{name}")), "true");
    let next = waiting.await.expect("no panic").expect("granted");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert!(lease.renew(TTL).await.is_err(), "Java has ended it");
    next.release().await.expect("ours to the end");
    java(&fixture, &format!("lock a fair:{name}"));
    let waiting = fixture.java.give(&format!("lock b fair:{name}"));
    until_head_listens(&mut fixture);
    tokio::time::sleep(SETTLED).await;
    assert!(lock.force_release().await.expect("an answer"));
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    java(&fixture, &format!("unlock b fair:{name}"));
    assert_eq!(fixture.pttl(), -2);
}

async fn f20_a_caller_of_ours_that_gives_up_leaves_no_dead_head_to_java(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fair_lock(&name).acquire().await.expect("a free lock");
    let other = other_engine(&fixture).await;
    let dropped = tokio::spawn(other.fair_lock(&name).acquire());
    until_in_line(&mut fixture, 1);
    let waiting = fixture.java.give(&format!("lock b fair:{name}"));
    until_in_line(&mut fixture, 2);
    tokio::time::sleep(SETTLED).await;
    dropped.abort();
    until_in_line(&mut fixture, 1);
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    java(&fixture, &format!("unlock b fair:{name}"));
    assert_eq!((fixture.pttl(), in_line(&mut fixture)), (-2, 0));
}

async fn f7_a_fair_lock_of_ours_that_has_gone_is_not_released_in_silence(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fair_lock(&name).no_renewal().acquire().await.expect("a free lock");
    assert_eq!(java(&fixture, &format!("force a fair:{name}")), "true");
    java(&fixture, &format!("lock a fair:{name}"));
    let ended = lease.release().await;
    assert!(matches!(ended, Err(ReleaseError::AlreadyLost(_))), "{ended:?}");
    assert_eq!(java(&fixture, &format!("held a fair:{name}")), "true");
    java(&fixture, &format!("unlock a fair:{name}"));
    assert_eq!(fixture.pttl(), -2);
}

/// It waits for 3 s: that is what its place costs.
async fn l1_a_jvm_that_halts_in_the_line_costs_its_own_wait(topology: Topology) {
    let mut fixture = Fixture::with_its_own_jvm(topology, SHORT).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fair_lock(&name).acquire().await.expect("a free lock");
    fixture.java.give(&format!("trylock a fair:{name} 3000"));
    until_in_line(&mut fixture, 1);
    let waiting = tokio::spawn(fixture.engine.fair_lock(&name).acquire());
    until_in_line(&mut fixture, 2);
    let Fixture { java, raw: _raw, servers: _servers, engine: _engine, .. } = fixture;
    java.halt();
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    let lease = waiting.await.expect("no panic").expect("granted");
    let (took, most) = (before.elapsed(), SHORT + Duration::from_millis(3_000 + 1_500));
    assert!(took < most, "{took:?}");
    lease.release().await.expect("ours to the end");
}

/// As long as another of ours is in the line: peers take a place of ours for alive until its deadline.
async fn f6_a_process_of_ours_that_is_killed_at_the_head_costs_java_five_seconds(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fair_lock(&name).acquire().await.expect("a free lock");
    let windows = tempfile::TempDir::new().expect("a directory");
    let mut head = waiter(&fixture, windows.path());
    head.say("go").expect("it listens");
    until_in_line(&mut fixture, 1);
    let waiting = fixture.java.give(&format!("lock a fair:{name}"));
    until_in_line(&mut fixture, 2);
    let last = tokio::spawn(fixture.engine.fair_lock(&name).acquire());
    until_in_line(&mut fixture, 3);
    head.kill().expect("killed");
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    let took = before.elapsed();
    assert!(took < Duration::from_secs(7), "{took:?}"); // 4.9 s, on a busy machine
    java(&fixture, &format!("unlock a fair:{name}"));
    let lease = last.await.expect("no panic").expect("granted");
    lease.release().await.expect("ours to the end");
    assert_eq!((fixture.pttl(), in_line(&mut fixture)), (-2, 0));
}

/// A process that waits for the lock.
fn waiter(fixture: &Fixture, windows: &Path) -> Talker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contender"));
    command.args([
        "--url",
        &fixture.servers.url(),
        "--fair",
        "--prefix",
        fixture.prefix(),
        "--run-ms",
        "60000",
    ]);
    command.args(["--hold-us", "1..1", "--windows"]).arg(windows);
    let waiter = Talker::start(&mut command).expect("a contender");
    waiter.line(SOON, |line| line == "ready").expect("a contender that is connected");
    waiter
}

/// An engine of another process, as far as the server can tell.
async fn other_engine(fixture: &Fixture) -> Engine {
    let config = RedisConfig::from_url(&fixture.servers.url()).expect("a URL");
    Engine::builder(RedisTransport::new(config)).ttl(TTL).build().await.expect("an engine")
}

fn line_of(fixture: &Fixture) -> String {
    format!("redisson_lock_queue:{{{}}}", fixture.name)
}

fn in_line(fixture: &mut Fixture) -> i64 {
    let line = line_of(fixture);
    fixture.raw.command(&["LLEN", &line]).expect("a reply").integer().expect("a number")
}

fn until_in_line(fixture: &mut Fixture, count: i64) {
    let mut found = 0;
    let is_there = || {
        found = in_line(fixture);
        found == count
    };
    assert!(holds_within(SOON, is_there), "{found} in line, not {count}");
}

/// Waits until the head of the line listens, in either way.
fn until_head_listens(fixture: &mut Fixture) {
    until_in_line(fixture, 1);
    let line = line_of(fixture);
    let head = fixture.raw.command(&["LINDEX", &line, "0"]).expect("a reply").text().expect("a head");
    let channel = format!("redisson_lock__channel:{{{}}}:{head}", fixture.name);
    let listens = || {
        let heard = ["NUMSUB", "SHARDNUMSUB"]
            .map(|how| fixture.raw.command(&["PUBSUB", how, &channel]).expect("a reply"));
        heard.iter().filter_map(|reply| reply.items().get(1).and_then(Value::integer)).sum::<i64>() > 0
    };
    assert!(holds_within(SOON, listens), "no client listens to {channel}");
}

fn java(fixture: &Fixture, command: &str) -> String {
    fixture.java.call(command).unwrap_or_else(|why| panic!("{command}: {why}"))
}

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(2);
const HANDS: u64 = 4;
const DONE_BY: Duration = Duration::from_secs(60);
/// Java's threads have subscribed and have tried once more.
const SETTLED: Duration = Duration::from_millis(300);
