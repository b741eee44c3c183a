//! A holder that dies without a word: the other side gets the lock when the ttl is over, not before and not much later.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use leasehold_tests::harness::{deployment::Topology, talker::Talker};

use crate::fixture::{Fixture, SOON, Side, asks};

const TTL: Duration = Duration::from_secs(2);

leasehold_tests::on_every_topology!(
    l1_a_jvm_that_halts_leaves_its_lock_to_us_at_its_ttl,
    l1_a_process_of_ours_that_is_killed_leaves_its_lock_to_java_at_its_ttl,
);

async fn l1_a_jvm_that_halts_leaves_its_lock_to_us_at_its_ttl(topology: Topology) {
    let Fixture { java, engine, mut raw, servers, name } = Fixture::with_its_own_jvm(topology, TTL).await;
    java.call(&format!("lock a {name}")).expect("a free lock");
    let waiting = tokio::spawn(engine.lock(&name).acquire());
    java.halt();
    let asked = Instant::now();
    let left = raw.command(&["PTTL", &name]).expect("a reply").integer().expect("a number");
    assert!(left > 0, "the lock outlives its JVM: {left}");
    let left = Duration::from_millis(left.unsigned_abs());
    let expiry = Instant::now() + left;
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(Instant::now() < expiry + TTL / 3, "{:?} late", expiry.elapsed());
    // PTTL may round down: 2 ms earlier is not before the expiry.
    let since = asked + left - Duration::from_millis(2);
    assert!(Instant::now() >= since, "before the ttl was over");
    let tries = asks(&servers, Side::Ours, &name, Some(since)).len();
    assert!((1..=2).contains(&tries), "{tries} commands between expiry and grant");
    lease.release().await.expect("ours to the end");
}

async fn l1_a_process_of_ours_that_is_killed_leaves_its_lock_to_java_at_its_ttl(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let name = fixture.name.clone();
    let windows = tempfile::TempDir::new().expect("a directory");
    let mut holder = holder(&fixture, windows.path());
    holder.say("go").expect("it listens");
    holder.line(SOON, |line| line == format!("granted {name}")).expect("a free lock");
    let waiting = fixture.java.give(&format!("lock a {name}"));
    fixture.listeners(1);
    holder.kill().expect("killed");
    let left = fixture.pttl();
    assert!(left > 0, "the lock outlives its process: {left}");
    let expiry = Instant::now() + Duration::from_millis(left.unsigned_abs());
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    // Java polls when the ttl that it was told is over.
    assert!(Instant::now() < expiry + TTL / 3, "{:?} late", expiry.elapsed());
    fixture.java.call(&format!("unlock a {name}")).expect("it is Java's");
}

/// A process that takes the lock and keeps it.
fn holder(fixture: &Fixture, windows: &Path) -> Talker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contender"));
    command.args(["--url", &fixture.servers.url(), "--announce", "--prefix", fixture.prefix(), "--hold-us"]);
    command
        .args(["3600000000..3600000000", "--ttl-ms", &TTL.as_millis().to_string(), "--windows"])
        .arg(windows);
    let holder = Talker::start(&mut command).expect("a contender");
    holder.line(SOON, |line| line == "ready").expect("a contender that is connected");
    holder
}
