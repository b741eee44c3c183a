//! A holder that dies without a word: the other side gets the lock when the ttl is over, not before and not much later.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_tests::harness::talker::Talker;

use crate::ground::{Ground, NAME, SOON, asks};

const TTL: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_jvm_that_halts_leaves_its_lock_to_us_at_its_ttl() {
    let Ground { mut java, engine, mut raw, our_wire, java_wire: _wire, server: _server } =
        Ground::new(TTL).await;
    java.call(&format!("lock a {NAME}")).expect("a free lock");
    let waiting = tokio::spawn(engine.lock(NAME).acquire());
    java.halt();
    let left = raw.command(&["PTTL", NAME]).expect("a reply").integer().expect("a number");
    assert!(left > 0, "the lock outlives its JVM: {left}");
    let expiry = Instant::now() + Duration::from_millis(left.unsigned_abs());
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(Instant::now() < expiry + TTL / 3, "{:?} late", expiry.elapsed());
    // PTTL may round down and was read before: 2 ms earlier is not before the expiry.
    let since = expiry - Duration::from_millis(2);
    assert!(Instant::now() >= since, "before the ttl was over");
    let tries = asks(&our_wire, NAME, Some(since)).len();
    assert!((1..=2).contains(&tries), "{tries} commands between expiry and grant");
    lease.release().await.expect("ours to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_process_of_ours_that_is_killed_leaves_its_lock_to_java_at_its_ttl() {
    let mut ground = Ground::new(TTL).await;
    let windows = tempfile::TempDir::new().expect("a directory");
    let mut holder = holder(&ground, windows.path());
    holder.say("go").expect("it listens");
    holder.line(SOON, |line| line == format!("granted {NAME}")).expect("a free lock");
    let waiting = ground.java.give(&format!("lock a {NAME}"));
    ground.listeners(1);
    holder.kill().expect("killed");
    let left = ground.pttl();
    assert!(left > 0, "the lock outlives its process: {left}");
    let expiry = Instant::now() + Duration::from_millis(left.unsigned_abs());
    assert_eq!(ground.java.answer(waiting, SOON).as_deref(), Ok(""));
    // Java polls when the ttl that it was told is over.
    assert!(Instant::now() < expiry + TTL / 3, "{:?} late", expiry.elapsed());
}

/// A process that takes the lock and keeps it.
fn holder(ground: &Ground, windows: &std::path::Path) -> Talker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contender"));
    command.args(["--url", &ground.server.url(), "--announce", "--prefix", "orders-", "--hold-us"]);
    command
        .args(["3600000000..3600000000", "--ttl-ms", &TTL.as_millis().to_string(), "--windows"])
        .arg(windows);
    let holder = Talker::start(&mut command).expect("a contender");
    holder.line(SOON, |line| line == "ready").expect("a contender that is connected");
    holder
}
