//! Read/write locks on both sides: readers of both share, a writer of either is alone, and each is woken by the other's
//! message.

use std::time::{Duration, Instant};

use leasehold::Engine;
use leasehold_tests::harness::{deployment::Topology, length, raw_client::RawClient, resp::Value};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SOON, Side};

leasehold_tests::on_every_topology!(
    s1_readers_of_both_sides_share_and_a_writer_of_either_is_kept_out,
    l2_java_ends_its_write_hold_and_our_readers_are_granted_by_its_message,
    l2_we_end_our_write_hold_and_java_readers_are_granted_by_our_message,
    l2_the_last_reader_of_either_side_lets_a_writer_of_the_other_in,
    s4_java_ends_its_read_hold_and_ours_stays,
    s4_we_end_our_read_hold_and_a_write_hold_of_java_keeps_its_expiry,
    a_downgrade_lets_a_waiting_java_reader_in_at_once_and_no_java_writer,
    s1_java_and_we_write_a_number_that_both_read,
    java_forces_our_write_hold_and_we_force_javas,
);

async fn s1_readers_of_both_sides_share_and_a_writer_of_either_is_kept_out(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let ours = fixture.engine.rw_lock(&name);
    let reader = ours.read().acquire().await.expect("a free lock");
    assert_eq!(java(&fixture, &format!("trylock a read:{name} 0")), "true", "Java reads beside us");
    assert_eq!(java(&fixture, &format!("trylock b write:{name} 0")), "false", "we keep Java's writer out");
    let other = ours.read().ttl(TTL / 2).acquire().await.expect("we read beside Java");
    assert!(ours.write().try_acquire().await.expect("an answer").is_none(), "Java keeps our writer out");
    reader.release().await.expect("ours to the end");
    other.release().await.expect("ours to the end");
    assert!(ours.write().try_acquire().await.expect("an answer").is_none(), "Java reads alone");
    java(&fixture, &format!("unlock a read:{name}"));
    let writer = ours.write().acquire().await.expect("a free lock");
    assert_eq!(java(&fixture, &format!("trylock a read:{name} 0")), "false");
    assert_eq!(java(&fixture, &format!("trylock b write:{name} 0")), "false");
    writer.release().await.expect("ours to the end");
    java(&fixture, &format!("lock b write:{name}"));
    assert!(ours.read().try_acquire().await.expect("an answer").is_none());
    java(&fixture, &format!("unlock b write:{name}"));
    assert_eq!(fixture.pttl(), -2, "nothing is left");
}

async fn l2_java_ends_its_write_hold_and_our_readers_are_granted_by_its_message(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    java(&fixture, &format!("lock a write:{name}"));
    let lock = fixture.engine.rw_lock(&name).read();
    let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(lock.acquire())).collect();
    until_heard(&mut fixture, 1).await;
    fixture.next_ask();
    let before = Instant::now();
    java(&fixture, &format!("unlock a write:{name}"));
    for reader in waiting {
        reader.await.expect("no panic").expect("granted").release().await.expect("ours to the end");
    }
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    let asks = fixture.asks(Side::Ours, Some(before)).len();
    assert!(asks <= 2, "all our readers by one command, and one more for Java's second message: {asks}");
}

async fn l2_we_end_our_write_hold_and_java_readers_are_granted_by_our_message(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let writer = fixture.engine.rw_lock(&name).write().acquire().await.expect("a free lock");
    let waiting: Vec<_> =
        (0..4).map(|thread| fixture.java.give(&format!("lock r{thread} read:{name}"))).collect();
    until_heard(&mut fixture, 1).await;
    tokio::time::sleep(SETTLED).await; // Java's threads are past their second try
    let before = Instant::now();
    writer.release().await.expect("ours to the end");
    for given in waiting {
        assert_eq!(fixture.java.answer(given, SOON).as_deref(), Ok(""));
    }
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    (0..4).for_each(|thread| drop(java(&fixture, &format!("unlock r{thread} read:{name}"))));
    assert_eq!(fixture.pttl(), -2, "nothing is left");
}

async fn l2_the_last_reader_of_either_side_lets_a_writer_of_the_other_in(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    java(&fixture, &format!("lock a read:{name}"));
    let waiting = tokio::spawn(fixture.engine.rw_lock(&name).write().acquire());
    until_heard(&mut fixture, 1).await;
    let before = Instant::now();
    java(&fixture, &format!("unlock a read:{name}"));
    waiting.await.expect("no panic").expect("granted").release().await.expect("ours to the end");
    let reader = fixture.engine.rw_lock(&name).read().acquire().await.expect("a free lock");
    let waiting = fixture.java.give(&format!("lock b write:{name}"));
    until_heard(&mut fixture, 1).await;
    tokio::time::sleep(SETTLED).await;
    reader.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3 + SETTLED, "{:?}", before.elapsed());
    java(&fixture, &format!("unlock b write:{name}"));
}

async fn s4_java_ends_its_read_hold_and_ours_stays(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    for order in ["java first", "ours first"] {
        if order == "java first" {
            java(&fixture, &format!("lock a read:{name}"));
        }
        let reader = fixture.engine.rw_lock(&name).read().acquire().await.expect("readers share");
        if order == "ours first" {
            java(&fixture, &format!("lock a read:{name}"));
        }
        java(&fixture, &format!("unlock a read:{name}"));
        let left = fixture.pttl();
        assert!(left > 20_000 && fixture.owners().len() == 2, "{order}: {left}, {:?}", fixture.owners());
        reader.renew(2 * TTL).await.expect("the server has it");
        reader.release().await.expect("ours to the end");
        assert_eq!(fixture.pttl(), -2, "{order}");
    }
}

async fn s4_we_end_our_read_hold_and_a_write_hold_of_java_keeps_its_expiry(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let reader = fixture.engine.rw_lock(&name).read().no_renewal().acquire().await.expect("a free lock");
    fixture.raw.command(&["DEL", &name]).expect("a reply"); // as if an operator had deleted it
    java(&fixture, &format!("lock a write:{name} 25000"));
    let before = fixture.pttl();
    let ended = reader.release().await;
    assert!(matches!(ended, Err(leasehold::ReleaseError::AlreadyLost(_))), "{ended:?}");
    let after = fixture.pttl();
    assert!(after > 20_000 && after <= before, "{before}, then {after}");
    assert_eq!(java(&fixture, &format!("held a write:{name}")), "true");
    java(&fixture, &format!("unlock a write:{name}"));
}

async fn a_downgrade_lets_a_waiting_java_reader_in_at_once_and_no_java_writer(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let writer = fixture.engine.rw_lock(&name).write().acquire().await.expect("a free lock");
    let reading = fixture.java.give(&format!("lock r read:{name}"));
    let writing = fixture.java.give(&format!("lock w write:{name}"));
    until_heard(&mut fixture, 1).await;
    tokio::time::sleep(SETTLED).await;
    let before = Instant::now();
    let reader = writer.downgrade().await.expect("ours");
    assert_eq!(fixture.java.answer(reading, SOON).as_deref(), Ok(""));
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert!(reader.is_held());
    reader.renew(2 * TTL).await.expect("the server has it as a read hold");
    reader.release().await.expect("ours to the end");
    java(&fixture, &format!("unlock r read:{name}"));
    assert_eq!(fixture.java.answer(writing, SOON).as_deref(), Ok(""), "now the writer");
    java(&fixture, &format!("unlock w write:{name}"));
}

/// A writer that is let in beside another loses an update; a reader beside a writer sees two numbers.
async fn s1_java_and_we_write_a_number_that_both_read(topology: Topology) {
    let rounds = if topology == Topology::Single || length::is_long() { 60 } else { 20 };
    let mut fixture = Fixture::new(topology, TTL).await;
    let (name, counter) = (fixture.name.clone(), fixture.counter());
    let write = |thread| format!("increment t{thread} write:{name} {counter} {rounds}");
    let given: Vec<_> = (0..HANDS).map(|thread| fixture.java.give(&write(thread))).collect();
    let mut tasks = JoinSet::new();
    for hand in 0..2 * HANDS {
        let master = fixture.servers.master_of(&counter).expect("a master");
        let client = master.client().expect("a connection");
        let (engine, name, counter) = (fixture.engine.clone(), name.clone(), counter.clone());
        match hand % 2 {
            0 => drop(tasks.spawn(write_all(engine, name, client, counter, rounds))),
            _ => drop(tasks.spawn(read_all(engine, name, client, counter, rounds))),
        }
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

async fn java_forces_our_write_hold_and_we_force_javas(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let lock = fixture.engine.rw_lock(&name);
    let writer = lock.write().acquire().await.expect("a free lock");
    assert_eq!(java(&fixture, &format!("force a write:{name}")), "true");
    assert!(writer.renew(TTL).await.is_err(), "Java has ended it");
    java(&fixture, &format!("lock a read:{name}"));
    let waiting = tokio::spawn(lock.write().acquire());
    until_heard(&mut fixture, 1).await;
    assert!(lock.read().force_release().await.expect("an answer"));
    waiting.await.expect("no panic").expect("granted").release().await.expect("ours to the end");
    assert_eq!(fixture.pttl(), -2);
}

async fn write_all(engine: Engine, name: String, mut client: RawClient, counter: String, rounds: u64) {
    for _ in 0..rounds {
        let lease = engine.rw_lock(&name).write().acquire().await.expect("our turn");
        let number = number(&mut client, &counter);
        client.command(&["SET", &counter, &(number + 1).to_string()]).expect("a reply");
        lease.release().await.expect("ours to the end");
    }
}

async fn read_all(engine: Engine, name: String, mut client: RawClient, counter: String, rounds: u64) {
    for _ in 0..rounds {
        let lease = engine.rw_lock(&name).read().acquire().await.expect("our turn");
        let first = number(&mut client, &counter);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(number(&mut client, &counter), first, "nobody writes while we read");
        lease.release().await.expect("ours to the end");
    }
}

fn number(client: &mut RawClient, counter: &str) -> u64 {
    let read = client.command(&["GET", counter]).expect("a reply").text();
    read.map_or(0, |text| text.parse().expect("a number"))
}

/// Waits until so many clients listen to the channel of read/write locks, in either way.
async fn until_heard(fixture: &mut Fixture, count: i64) {
    let channel = format!("redisson_rwlock:{{{}}}", fixture.name);
    let end = Instant::now() + SOON;
    loop {
        let listeners: i64 = ["NUMSUB", "SHARDNUMSUB"]
            .map(|how| fixture.raw.command(&["PUBSUB", how, &channel]).expect("a reply"))
            .iter()
            .filter_map(|reply| reply.items().get(1).and_then(Value::integer))
            .sum();
        if listeners >= count {
            return;
        }
        assert!(Instant::now() < end, "{listeners} listen to {channel}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn java(fixture: &Fixture, command: &str) -> String {
    fixture.java.call(command).unwrap_or_else(|why| panic!("{command}: {why}"))
}

const TTL: Duration = Duration::from_secs(30);
const HANDS: u64 = 3;
const DONE_BY: Duration = Duration::from_secs(60);
/// Java's threads have subscribed and have tried once more.
const SETTLED: Duration = Duration::from_millis(300);
