//! What lies on the server while a lock is held, and what is told when it is released, seen without our code.

use std::time::Duration;

use leasehold::Engine;
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};

/// Prefix, name, key, channel: the table of the wire protocol, by hand.
const TABLE: [[&str; 4]; 9] = [
    ["", "orders:42", "orders:42", "redisson_lock__channel:{orders:42}"],
    ["", "a:{b}:c", "a:{b}:c", "redisson_lock__channel:a:{b}:c"],
    ["", "schlüssel 鐘", "schlüssel 鐘", "redisson_lock__channel:{schlüssel 鐘}"],
    ["", "a{b", "a{b", "redisson_lock__channel:a{b"],
    ["", "a}b", "a}b", "redisson_lock__channel:{a}b}"],
    ["", "{}x", "{}x", "redisson_lock__channel:{}x"],
    ["", "line\nend \0", "line\nend \0", "redisson_lock__channel:{line\nend \0}"],
    ["app:", "orders", "app:orders", "redisson_lock__channel:{app:orders}"],
    ["{app}:", "orders", "{app}:orders", "redisson_lock__channel:{app}:orders"],
];

#[tokio::test]
async fn a_lock_is_redissons_hash_and_its_release_redissons_message() {
    let server = RedisServer::start().expect("a server");
    let (mut raw, mut ear) = (server.client().expect("a connection"), everything_published(&server));
    for [prefix, name, key, channel] in TABLE {
        let engine = engine(&server, prefix).await;
        let lease = engine.lock(name).ttl(TTL).acquire().await.expect("a lease");
        assert_eq!(command(&mut raw, &["KEYS", "*"]), [key], "no other key");
        assert_is_redissons_hash(&mut raw, key);
        lease.release().await.expect("released");
        assert_eq!(command(&mut raw, &["KEYS", "*"]), [""; 0], "{key:?}");
        assert_eq!(ear.read().expect("a message").texts(), ["pmessage", "*", channel, "0"]);
    }
    // Nothing else was published: the next message is ours.
    raw.command(&["PUBLISH", "end", "x"]).expect("a reply");
    assert_eq!(ear.read().expect("a message").texts(), ["pmessage", "*", "end", "x"]);
}

#[tokio::test]
async fn a_renewal_changes_the_expiry_and_nothing_else() {
    let server = RedisServer::start().expect("a server");
    let mut raw = server.client().expect("a connection");
    let engine = engine(&server, "").await;
    let lease = engine.lock("L").ttl(TTL).acquire().await.expect("a lease");
    let before = command(&mut raw, &["HGETALL", "L"]);
    raw.command(&["PEXPIRE", "L", "5000"]).expect("a reply");
    lease.renew(TTL).await.expect("renewed");
    assert_is_redissons_hash(&mut raw, "L");
    assert_eq!(command(&mut raw, &["HGETALL", "L"]), before);
    assert_eq!(command(&mut raw, &["KEYS", "*"]), ["L"]);
}

async fn engine(server: &RedisServer, prefix: &str) -> Engine {
    let transport = RedisTransport::from_url(&server.url()).expect("a url");
    Engine::builder(transport).name_prefix(prefix).build().await.expect("an engine")
}

fn everything_published(server: &RedisServer) -> RawClient {
    let mut ear = server.client().expect("a connection");
    assert_eq!(ear.command(&["PSUBSCRIBE", "*"]).expect("a reply").texts(), ["psubscribe", "*"]);
    ear
}

fn command(raw: &mut RawClient, arguments: &[&str]) -> Vec<String> {
    raw.command(arguments).expect("a reply").texts()
}

/// One field `<uuid>:<n>` with value 1, and the whole ttl but for the time of a slow machine.
fn assert_is_redissons_hash(raw: &mut RawClient, key: &str) {
    let kind = raw.command(&["TYPE", key]).expect("a reply");
    assert_eq!(kind.text().as_deref(), Some("hash"));
    let content = command(raw, &["HGETALL", key]);
    assert!(content.len() == 2 && content[1] == "1", "{content:?}");
    let (client, n) = content[0].split_once(':').expect("an owner");
    let uuid = uuid::Uuid::parse_str(client).expect("a uuid");
    assert_eq!((uuid.hyphenated().to_string(), uuid.get_version_num()), (client.to_owned(), 4));
    assert!(n.parse::<i64>().is_ok_and(|n| n >= 0), "{n}");
    let ttl = raw.command(&["PTTL", key]).expect("a reply").integer().expect("milliseconds");
    // A renewal rounds the end up to a millisecond of the server.
    assert!((TTL_MS - 10_000..=TTL_MS + 1).contains(&ttl), "{ttl}");
}

const TTL: Duration = Duration::from_secs(60);
const TTL_MS: i64 = 60_000;
