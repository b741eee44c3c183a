//! What the words of sentinels that do not agree, or refuse something, lead to.

use std::time::Duration;

use leasehold::Engine;
use leasehold_redis::{Address, RedisConfig, RedisTransport};

use crate::{fake::FakeSentinel, server::Server};

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

/// Two of three are down: the one that is left is believed after one command timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_sentinel_of_three_is_enough_when_the_others_are_down() {
    let server = Server::start();
    let sentinel = FakeSentinel::naming(server.port, 1);
    let down = [free_port(), free_port()].map(|port| Address::new("127.0.0.1", port));
    let engine = engine([sentinel.address()].into_iter().chain(down)).await;
    assert!(engine.lock("k").acquire().await.unwrap().is_held());
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
