//! A process of either side is killed while it reads, writes, has permits or waits at a latch: the other side goes on. A hold
//! ends at its ttl; what was counted stays counted, and a caller that is gone takes nothing.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use leasehold_tests::harness::{
    deployment::Topology, polling::holds_within, raw_client::RawClient, talker::Talker,
};

use crate::fixture::{Fixture, SOON};

leasehold_tests::on_every_topology!(
    l1_a_jvm_that_halts_leaves_its_write_hold_to_our_readers_at_its_ttl,
    l1_a_writer_of_ours_that_is_killed_leaves_the_lock_to_java_readers_at_its_ttl,
    s4_a_jvm_that_halts_while_it_reads_ends_no_read_hold_of_ours_and_keeps_no_writer_out,
    s4_a_reader_of_ours_that_is_killed_ends_no_read_hold_of_java_and_keeps_no_writer_out,
    a_jvm_that_halts_keeps_its_permits_and_takes_no_more,
    a_process_of_ours_that_is_killed_keeps_its_permits_and_takes_no_more,
    a_jvm_that_halts_at_a_latch_has_counted_and_we_open_it,
    a_process_of_ours_that_is_killed_at_a_latch_has_counted_and_java_opens_it,
);

const TTL: Duration = Duration::from_secs(2);

async fn l1_a_jvm_that_halts_leaves_its_write_hold_to_our_readers_at_its_ttl(topology: Topology) {
    let Fixture { java, engine, mut raw, servers: _servers, name } =
        Fixture::with_its_own_jvm(topology, TTL).await;
    java.call(&format!("lock a write:{name}")).expect("a free lock");
    let lock = engine.rw_lock(&name).read();
    let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(lock.acquire())).collect();
    java.halt();
    let expiry = expiry(&mut raw, &name);
    for reader in waiting {
        let lease = reader.await.expect("no panic").expect("granted");
        assert!(Instant::now() >= expiry - ROUNDED && Instant::now() < expiry + TTL / 3);
        lease.release().await.expect("ours to the end");
    }
}

async fn l1_a_writer_of_ours_that_is_killed_leaves_the_lock_to_java_readers_at_its_ttl(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let mut writer = process(&fixture, "write");
    let waiting: Vec<_> = (0..3).map(|t| fixture.java.give(&format!("lock r{t} read:{name}"))).collect();
    until_heard(&mut fixture, &format!("redisson_rwlock:{{{name}}}"));
    writer.kill().expect("killed");
    let expiry = expiry(&mut fixture.raw, &name);
    for given in waiting {
        assert_eq!(fixture.java.answer(given, SOON).as_deref(), Ok(""));
    }
    // Java polls when the ttl that it was told is over.
    assert!(Instant::now() < expiry + TTL / 3, "{:?} late", expiry.elapsed());
    (0..3).for_each(|t| drop(java(&fixture, &format!("unlock r{t} read:{name}"))));
    assert_eq!(fixture.pttl(), -2, "nothing is left");
}

async fn s4_a_jvm_that_halts_while_it_reads_ends_no_read_hold_of_ours_and_keeps_no_writer_out(
    topology: Topology,
) {
    let Fixture { java, engine, mut raw, servers: _servers, name } =
        Fixture::with_its_own_jvm(topology, TTL).await;
    let lock = engine.rw_lock(&name);
    let reader = lock.read().acquire().await.expect("a free lock");
    java.call(&format!("lock a read:{name}")).expect("readers share");
    java.halt();
    tokio::time::sleep(2 * TTL).await;
    reader.ensure_held().expect("ours");
    let left = raw.command(&["PTTL", &name]).expect("a reply").integer();
    assert!(left.is_some_and(|left| left > 0), "{left:?}");
    assert!(lock.write().try_acquire().await.expect("an answer").is_none(), "we read");
    reader.release().await.expect("ours to the end");
    let writer =
        lock.write().try_acquire().await.expect("an answer").expect("the dead reader's time is over");
    writer.release().await.expect("ours to the end");
}

async fn s4_a_reader_of_ours_that_is_killed_ends_no_read_hold_of_java_and_keeps_no_writer_out(
    topology: Topology,
) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let mut reader = process(&fixture, "read");
    java(&fixture, &format!("lock a read:{name}"));
    reader.kill().expect("killed");
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(java(&fixture, &format!("held a read:{name}")), "true");
    assert_eq!(java(&fixture, &format!("trylock b write:{name} 0")), "false", "Java reads");
    let ended = Instant::now();
    java(&fixture, &format!("unlock a read:{name}"));
    // Redisson before 4.4 has renewed the dead reader beside its own.
    java(&fixture, &format!("lock b write:{name}"));
    assert!(ended.elapsed() < TTL + TTL / 3, "{:?}", ended.elapsed());
    java(&fixture, &format!("unlock b write:{name}"));
    assert_eq!(fixture.pttl(), -2, "nothing is left");
}

async fn a_jvm_that_halts_keeps_its_permits_and_takes_no_more(topology: Topology) {
    let Fixture { java, engine, servers: _servers, mut raw, name } =
        Fixture::with_its_own_jvm(topology, TTL).await;
    let permits = engine.semaphore(&name);
    permits.try_set(3).await.expect("an answer");
    java.call(&format!("sem-acquire a {name} 2")).expect("permits");
    java.give(&format!("sem-acquire b {name} 2"));
    heard_by(&mut raw, &format!("redisson_sc:{{{name}}}"), 1);
    let ours = tokio::spawn(permits.acquire(3));
    heard_by(&mut raw, &format!("redisson_sc:{{{name}}}"), 2);
    java.halt();
    permits.release(1).await.expect("an answer");
    assert!(!ours.is_finished() && permits.available().await.expect("an answer") == 2);
    permits.release(1).await.expect("an answer");
    ours.await.expect("no panic").expect("three permits");
    assert_eq!(permits.available().await.expect("an answer"), 0, "the dead caller has taken nothing");
}

async fn a_process_of_ours_that_is_killed_keeps_its_permits_and_takes_no_more(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    assert_eq!(java(&fixture, &format!("sem-set a {name} 3")), "true");
    let mut taker = process(&fixture, "semaphore");
    assert_eq!(java(&fixture, &format!("sem-available a {name}")), "1");
    until_heard(&mut fixture, &format!("redisson_sc:{{{name}}}")); // it waits for two more
    taker.kill().expect("killed");
    let waiting = fixture.java.give(&format!("sem-acquire b {name} 3"));
    java(&fixture, &format!("sem-release a {name} 1"));
    assert_eq!(java(&fixture, &format!("sem-available a {name}")), "2");
    java(&fixture, &format!("sem-release a {name} 1"));
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert_eq!(java(&fixture, &format!("sem-available a {name}")), "0", "the dead caller has taken nothing");
}

async fn a_jvm_that_halts_at_a_latch_has_counted_and_we_open_it(topology: Topology) {
    let Fixture { java, engine, servers: _servers, mut raw, name } =
        Fixture::with_its_own_jvm(topology, TTL).await;
    let latch = engine.latch(&name);
    java.call(&format!("latch-set a {name} 3")).expect("a free name");
    java.call(&format!("latch-down a {name}")).expect("counted");
    java.give(&format!("latch-await b {name}"));
    let opened = tokio::spawn(latch.opened());
    heard_by(&mut raw, &format!("redisson_countdownlatch__channel__{{{name}}}"), 2);
    java.halt();
    assert_eq!(latch.count_down().await.expect("an answer"), 1);
    assert!(!opened.is_finished());
    assert_eq!(latch.count_down().await.expect("an answer"), 0);
    opened.await.expect("no panic").expect("open");
}

async fn a_process_of_ours_that_is_killed_at_a_latch_has_counted_and_java_opens_it(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    assert_eq!(java(&fixture, &format!("latch-set a {name} 3")), "true");
    let mut member = process(&fixture, "latch");
    until_heard(&mut fixture, &format!("redisson_countdownlatch__channel__{{{name}}}"));
    member.kill().expect("killed");
    let waiting = fixture.java.give(&format!("latch-await b {name}"));
    assert_eq!(java(&fixture, &format!("latch-count a {name}")), "2");
    java(&fixture, &format!("latch-down a {name}"));
    assert!(!fixture.java.has_answered(waiting));
    java(&fixture, &format!("latch-down a {name}"));
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
}

/// A process of ours that holds the name, as this kind.
fn process(fixture: &Fixture, kind: &str) -> Talker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holder"));
    let ttl = TTL.as_millis().to_string();
    command.args([&fixture.servers.url(), &fixture.name, &ttl, kind]);
    let holder = Talker::start(&mut command).expect("a holder");
    holder.line(SOON, |line| line.starts_with("held ")).expect("it holds");
    holder
}

/// When the lock's time on the server is over: not before this.
fn expiry(raw: &mut RawClient, name: &str) -> Instant {
    let asked = Instant::now();
    let left = raw.command(&["PTTL", name]).expect("a reply").integer().expect("a number");
    assert!(left > 0, "the hold outlives its process: {left}");
    asked + Duration::from_millis(left.unsigned_abs())
}

/// Waits until a client listens to this channel.
fn until_heard(fixture: &mut Fixture, channel: &str) {
    heard_by(&mut fixture.raw, channel, 1);
}

/// Waits until so many clients listen to this channel, in either way.
fn heard_by(raw: &mut RawClient, channel: &str, count: i64) {
    let listeners = || {
        let counted = ["NUMSUB", "SHARDNUMSUB"].map(|how| {
            let reply = raw.command(&["PUBSUB", how, channel]).expect("a reply");
            reply.items().get(1).and_then(|number| number.integer()).unwrap_or(0)
        });
        counted.iter().sum::<i64>() >= count
    };
    assert!(holds_within(SOON, listeners), "{count} listen to {channel}");
}

fn java(fixture: &Fixture, command: &str) -> String {
    fixture.java.call(command).unwrap_or_else(|why| panic!("{command}: {why}"))
}

/// PTTL may round down.
const ROUNDED: Duration = Duration::from_millis(2);
