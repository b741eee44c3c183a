//! A name whose lock and channel fall into different slots.

use leasehold::Engine;
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::{cluster::RedisCluster, redis_server::RedisServer};

use crate::queue::alone;

#[test]
fn a_name_over_two_slots_is_refused_on_a_cluster_with_the_reason_and_works_elsewhere() {
    alone(|| {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(refused_and_granted());
    });
}

async fn refused_and_granted() {
    let cluster = RedisCluster::builder().replicas_each(0).start().expect("a cluster");
    let seed = Address::new("127.0.0.1", cluster.ports()[0]);
    let engine = engine(RedisConfig::cluster([seed])).await;
    let error = engine.lock(NAME).acquire().await.expect_err("it cannot work").to_string();
    let channel = format!("redisson_lock__channel:{NAME}");
    let slots = [NAME, &channel].map(|key| cluster.slot_of(key).expect("a slot").to_string());
    assert_ne!(slots[0], slots[1]);
    let told = ["cluster", "braces", NAME, &channel, &slots[0], &slots[1]];
    assert!(told.iter().all(|word| error.contains(word)), "{error}");
    engine.lock("{a}b").acquire().await.expect("a lease").release().await.expect("released");

    let server = RedisServer::start().expect("a server");
    let single = self::engine(RedisConfig::single("127.0.0.1", server.port())).await;
    single.lock(NAME).acquire().await.expect("a lease").release().await.expect("released");
}

async fn engine(config: RedisConfig) -> Engine {
    Engine::builder(RedisTransport::new(config)).build().await.expect("an engine")
}

const NAME: &str = "a{b";
