//! Fenced and spin locks on both sides: each excludes the other, tokens rise over the grants of both, and each waits in
//! its own way.

use std::time::{Duration, Instant};

use leasehold::{Engine, FencingMode, Lock};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{deployment::Topology, length, raw_client::RawClient};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SOON, Side};

leasehold_tests::on_every_topology!(
    s6_tokens_rise_over_java_and_us_in_both_modes,
    l2_java_unlocks_a_fenced_lock_and_we_are_granted_by_its_message,
    l2_we_release_a_fenced_lock_and_java_is_granted_by_our_message,
    s1_java_and_we_add_to_a_number_under_a_fenced_lock,
    s1_java_and_we_add_to_a_number_under_a_spin_lock,
    a_spin_lock_of_ours_is_one_of_java_and_the_reverse,
);

async fn s6_tokens_rise_over_java_and_us_in_both_modes(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let (name, counts) = (fixture.name.clone(), counting(&fixture).await);
    let mut last = 0;
    for round in 0..12 {
        let engine = if round < 6 { &counts } else { &fixture.engine };
        let token = if round % 2 == 0 { java_token(&fixture) } else { our_token(engine, &name).await };
        assert!(token > last, "round {round}: {token} after {last}");
        if round < 6 || round % 2 == 0 {
            assert_eq!(token, last + 1, "round {round}: both sides count");
        }
        last = token;
    }
    let kept = format!("redisson_lock_token:{{{name}}}");
    assert_eq!(fixture.raw.command(&["GET", &kept]).expect("a reply").text(), Some(last.to_string()));
    assert_eq!(fixture.raw.command(&["PTTL", &kept]).expect("a reply").integer(), Some(-1));
    assert_eq!(fixture.java.call(&format!("token a fenced:{name}")), Ok(last.to_string()));
}

async fn l2_java_unlocks_a_fenced_lock_and_we_are_granted_by_its_message(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let theirs: i64 = java(&fixture, &format!("tokenlock a fenced:{name}")).parse().expect("a token");
    let lock = fixture.engine.fenced_lock(&name);
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    fixture.listeners(1);
    fixture.next_ask();
    let before = Instant::now();
    java(&fixture, &format!("unlock a fenced:{name}"));
    let lease = waiting.await.expect("no panic").expect("granted");
    assert_eq!(fixture.asks(Side::Ours, Some(before)).len(), 1);
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert!(lease.fencing_token().as_i64() > theirs);
    lease.release().await.expect("ours to the end");
}

async fn l2_we_release_a_fenced_lock_and_java_is_granted_by_our_message(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lease = fixture.engine.fenced_lock(&name).acquire().await.expect("a free lock");
    let ours = lease.fencing_token().as_i64();
    let tried = java(&fixture, &format!("trylock a fenced:{name} 0"));
    assert_eq!(tried, "false", "we exclude Java");
    let waiting = fixture.java.give(&format!("tokenlock b fenced:{name}"));
    fixture.listeners(1);
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    let theirs: i64 = fixture.java.answer(waiting, SOON).expect("Java's turn").parse().expect("a token");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(theirs, ours + 1);
    java(&fixture, &format!("unlock b fenced:{name}"));
}

async fn s1_java_and_we_add_to_a_number_under_a_fenced_lock(topology: Topology) {
    add_to_a_number(topology, "fenced", |engine, name| engine.fenced_lock(name)).await;
}

async fn s1_java_and_we_add_to_a_number_under_a_spin_lock(topology: Topology) {
    add_to_a_number(topology, "spin", |engine, name| engine.spin_lock(name)).await;
}

async fn a_spin_lock_of_ours_is_one_of_java_and_the_reverse(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lock = fixture.engine.spin_lock(&name);
    java(&fixture, &format!("lock a spin:{name}"));
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    fixture.next_ask();
    let before = Instant::now();
    java(&fixture, &format!("unlock a spin:{name}"));
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(java(&fixture, &format!("trylock a spin:{name} 0")), "false", "we exclude Java");
    let waiting = fixture.java.give(&format!("lock b spin:{name}"));
    fixture.listeners(0);
    let before = Instant::now();
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    java(&fixture, &format!("unlock b spin:{name}"));
}

/// Whoever is let in beside another loses an update.
async fn add_to_a_number(topology: Topology, kind: &str, lock: fn(&Engine, &str) -> Lock) {
    let rounds = if topology == Topology::Single || length::is_long() { 100 } else { 30 };
    let mut fixture = Fixture::new(topology, TTL).await;
    let (name, counter) = (fixture.name.clone(), fixture.counter());
    let add = |thread| format!("increment t{thread} {kind}:{name} {counter} {rounds}");
    let given: Vec<_> = (0..HANDS).map(|thread| fixture.java.give(&add(thread))).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..HANDS {
        let master = fixture.servers.master_of(&counter).expect("a master");
        let client = master.client().expect("a connection");
        tasks.spawn(increment(lock(&fixture.engine, &name), client, counter.clone(), rounds));
    }
    tasks.join_all().await;
    for given in given {
        let done = fixture.java.answer(given, DONE_BY).expect("Java's increments");
        assert!(done.starts_with(&format!("{rounds} ")), "{done}");
    }
    let total = fixture.raw.command(&["GET", &counter]).expect("a reply").text();
    assert_eq!(total, Some((2 * HANDS * rounds).to_string()));
    assert_eq!((fixture.pttl(), fixture.engine.snapshot().lost), (-2, 0));
}

async fn increment(lock: Lock, mut client: RawClient, counter: String, rounds: u64) {
    for _ in 0..rounds {
        let lease = lock.acquire().await.expect("our turn");
        let read = client.command(&["GET", &counter]).expect("a reply").text();
        let number: u64 = read.map_or(0, |text| text.parse().expect("a number"));
        client.command(&["SET", &counter, &(number + 1).to_string()]).expect("a reply");
        lease.release().await.expect("ours to the end");
    }
}

/// An engine of ours that counts grants, on the fixture's servers.
async fn counting(fixture: &Fixture) -> Engine {
    let config = RedisConfig::from_url(&fixture.servers.url()).expect("a URL");
    let builder = Engine::builder(RedisTransport::new(config)).fencing(FencingMode::Counter);
    builder.build().await.expect("an engine")
}

fn java(fixture: &Fixture, command: &str) -> String {
    fixture.java.call(command).unwrap_or_else(|why| panic!("{command}: {why}"))
}

fn java_token(fixture: &Fixture) -> i64 {
    let token = java(fixture, &format!("tokenlock a fenced:{}", fixture.name)).parse().expect("a token");
    java(fixture, &format!("unlock a fenced:{}", fixture.name));
    token
}

async fn our_token(engine: &Engine, name: &str) -> i64 {
    let lease = engine.fenced_lock(name).acquire().await.expect("a free lock");
    let token = lease.fencing_token().as_i64();
    lease.release().await.expect("ours to the end");
    token
}

const TTL: Duration = Duration::from_secs(30);
const HANDS: u64 = 4;
const DONE_BY: Duration = Duration::from_secs(60);
