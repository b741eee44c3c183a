//! What the words of sentinels that do not agree, or refuse something, lead to.

use std::{sync::atomic::Ordering, time::Duration};

use leasehold::{Engine, clock::Clock};
use leasehold_redis::{Address, RedisConfig, RedisTransport};

use crate::{
    fake::FakeSentinel,
    server::{Server, until},
};

async fn engine(sentinels: impl IntoIterator<Item = Address>) -> Engine {
    let transport = RedisTransport::new(RedisConfig::sentinel(sentinels, "m"));
    Engine::builder(transport).unavailable_after(Duration::from_secs(2)).build().await.unwrap()
}

/// The host of the old master and of the first sentinel came back after a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_an_old_word_of_the_first_sentinel_grants_nothing() {
    let (old, new) = (Server::start(), Server::start());
    let sentinels = [(old.port, 1, 0), (new.port, 2, 50), (new.port, 2, 50)].map(|(port, epoch, ms)| {
        let sentinel = FakeSentinel::naming(port, epoch);
        sentinel.change(|says| says.delay = Duration::from_millis(ms));
        sentinel
    });
    let other = engine([sentinels[1].address()]).await;
    let theirs = other.lock("k").acquire().await.unwrap();
    let engine = engine(sentinels.iter().map(FakeSentinel::address)).await;
    assert!(theirs.is_held());
    assert!(engine.lock("k").try_acquire().await.unwrap().is_none(), "granted by the old master");
    assert_eq!(old.cli(&["dbsize"]), "0", "nothing was written to the old master");
}

/// Each reply of the sentinels that are up to date takes 250 ms, so all that they are asked takes more than a command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_an_old_word_waits_for_sentinels_that_are_far() {
    let (old, new) = (Server::start(), Server::start());
    let sentinels = [(old.port, 1, 0), (new.port, 2, 250), (new.port, 2, 250)].map(|(port, epoch, ms)| {
        let sentinel = FakeSentinel::naming(port, epoch);
        sentinel.change(|says| says.delay = Duration::from_millis(ms));
        sentinel
    });
    let engine = engine(sentinels.iter().map(FakeSentinel::address)).await;
    let lease = engine.lock("k").try_acquire().await.unwrap().expect("it is free");
    assert_eq!([old.cli(&["dbsize"]), new.cli(&["dbsize"])], ["0", "1"], "granted by the new master");
    drop(lease);
}

/// Two of three are down: the one that is left is believed after one command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_sentinel_of_three_is_enough_when_the_others_are_down() {
    let server = Server::start();
    let sentinel = FakeSentinel::naming(server.port, 1);
    let down = [free_port(), free_port()].map(|port| Address::new("127.0.0.1", port));
    let engine = engine([sentinel.address()].into_iter().chain(down)).await;
    assert!(engine.lock("k").acquire().await.unwrap().is_held());
}

/// The README: without the right to SUBSCRIBE a failover is noticed up to five seconds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l5_a_failover_behind_sentinels_that_refuse_subscriptions_is_followed() {
    let (mut old, new) = (Server::start(), Server::start());
    let sentinels: Vec<_> = (0..3).map(|_| FakeSentinel::naming(old.port, 1)).collect();
    sentinels.iter().for_each(|sentinel| sentinel.change(|says| says.refuses_subscriptions = true));
    let engine = engine(sentinels.iter().map(FakeSentinel::address)).await;
    drop(engine.lock("k").acquire().await.unwrap());
    old.kill();
    for sentinel in &sentinels {
        sentinel.change(|says| (says.master, says.epoch) = (new.port, 2));
    }
    let granted = until(async || engine.lock("k").acquire().await.ok()).await;
    assert!(granted.is_held() && new.cli(&["hlen", "k"]) == "1");
    let findings = engine.audit().await;
    let refused: Vec<_> =
        findings.findings().iter().filter(|finding| finding.found.contains("+subscribe")).collect();
    assert_eq!(refused.len(), 3, "one finding for each sentinel: {refused:?}");
}

/// An outage of days must not keep the sentinels busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_a_master_the_sentinels_are_asked_ever_more_rarely() {
    let mut server = Server::start();
    let sentinel = FakeSentinel::naming(server.port, 1);
    let engine = engine([sentinel.address()]).await;
    server.kill();
    let asked = || sentinel.asked.load(Ordering::SeqCst);
    let killed = Clock::Boot.now();
    let until_second = |second| tokio::time::sleep(killed + Duration::from_secs(second) - Clock::Boot.now());
    // Each of the two lanes notices the end up to 5 s later and then asks for 5 s in 34 rounds, of three commands each.
    until_second(11).await;
    let in_eleven_seconds = asked();
    until_second(19).await;
    let later = asked() - in_eleven_seconds;
    assert!(later <= 60, "{later} commands from 11 s to 19 s, {in_eleven_seconds} before");
    assert!(later > 0, "it is asked all the same");
    drop(engine);
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
