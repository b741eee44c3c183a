//! Semaphores and latches on servers that refuse, that are out of memory, and whose answers are lost.

use leasehold::{CountError, Engine};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::harness::{
    raw_client::RawClient, redis_server::RedisServer, server_version::ServerVersion,
};

use crate::fixture::{Fixture, SECOND, until};

const RIGHTS: [&str; 13] = [
    "+eval",
    "+evalsha",
    "+time",
    "+get",
    "+set",
    "+incrby",
    "+decrby",
    "+del",
    "+pexpire",
    "+publish",
    "+subscribe",
    "+ping",
    "+info",
];

struct User {
    engine: Engine,
    raw: RawClient,
    name: String,
}

impl User {
    /// A user that may do all of this but `missing`, and whose counters have its name.
    async fn without(server: &RedisServer, missing: &str) -> Option<Self> {
        let name = format!("counter{}", missing.replace('+', "-"));
        let mut raw = server.client().expect("a connection");
        let keys = "~counter* ~{counter* resetchannels &redisson_sc:* &redisson_countdownlatch__channel__*";
        let granted = RIGHTS.into_iter().filter(|right| *right != missing);
        let rule = ["ACL", "SETUSER", &name, "on", ">hunter2-word"].into_iter();
        let rule: Vec<_> = rule.chain(keys.split(' ')).chain(granted).collect();
        assert!(raw.command(&rule).expect("a reply").is_ok());
        let mut config = RedisConfig::single("127.0.0.1", server.port());
        config.username = Some(name.clone());
        config.password = Some(Password::Value(Secret::new("hunter2-word")));
        let built = Engine::builder(RedisTransport::new(config)).unavailable_after(SECOND).build().await;
        Some(Self { engine: built.ok()?, raw, name })
    }

    fn number(&mut self, key: &str) -> i64 {
        let value = self.raw.command(&["GET", key]).expect("a reply").text();
        value.map_or(0, |text| text.parse().expect("a number"))
    }

    /// Markers always have an expiry.
    fn assert_expires(&mut self, missing: &str) {
        for key in self.raw.command(&["KEYS", "{counter*"]).expect("a reply").texts() {
            let left = self.raw.command(&["PTTL", &key]).expect("a reply").integer();
            assert_ne!(left, Some(-1), "without {missing}: {key}");
        }
    }
}

/// How far the number moves: as the answer says, and not at all if the call was refused.
fn moved<T>(answer: &Result<T, CountError>, by: i64, missing: &str) -> i64 {
    match answer {
        Ok(_) => by,
        Err(error @ CountError::Refused(_)) => {
            assert!(
                error.is_denied() && error.to_string().contains("grant the rights"),
                "{missing}: {error}"
            );
            0
        }
        Err(other) => panic!("without {missing}: {other:?}"),
    }
}

async fn each_right_is_taken_away(server: &RedisServer) {
    let mut refused = 0;
    for missing in RIGHTS {
        let Some(mut user) = User::without(server, missing).await else { continue };
        let (sem, down) = (format!("{}:s", user.name), format!("{}:l", user.name));
        user.raw.command(&["SET", &sem, "5"]).expect("a reply");
        user.raw.command(&["SET", &down, "2"]).expect("a reply");
        let (permits, latch) = (user.engine.semaphore(&sem), user.engine.latch(&down));
        let mut expected = 5;
        expected += moved(&permits.release(2).await, 2, missing);
        expected += moved(&permits.try_acquire(3).await, -3, missing);
        expected += moved(&permits.add(4).await, 4, missing);
        assert_eq!(user.number(&sem), expected, "without {missing}");
        let drained = permits.drain().await;
        expected += moved(&drained, -drained.as_ref().copied().unwrap_or(0), missing);
        assert_eq!(user.number(&sem), expected, "without {missing}");
        let mut left = 2 + moved(&latch.count_down().await, -1, missing);
        assert_eq!(user.number(&down), left, "without {missing}");
        left += moved(&latch.count_down().await, -1, missing);
        assert_eq!(user.number(&down), left, "without {missing}");
        refused += u32::from(expected != 0 || left != 0);
        user.assert_expires(missing);
    }
    assert!(refused >= 5, "{refused} rights were needed");
}

#[tokio::test]
async fn a_call_that_lacks_a_right_changes_nothing_and_says_so() {
    each_right_is_taken_away(&RedisServer::start().expect("a server")).await;
}

#[tokio::test]
async fn a_call_that_lacks_a_right_changes_nothing_before_redis_7_either() {
    let server = RedisServer::builder().version(ServerVersion::Redis62).start().expect("a server");
    each_right_is_taken_away(&server).await;
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let server = RedisServer::start().expect("a server");
    let readme = include_str!("../../transports/redis/README.md");
    let first = readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER leasehold ")).expect("a rule");
    let more = readme.lines().find(|line| line.starts_with("~{locks:* ")).expect("what counters need");
    let rule = [first, more].join(" ").replace(">secret", ">hunter2-word");
    let rule: Vec<_> = ["ACL", "SETUSER", "leasehold"].into_iter().chain(rule.split_whitespace()).collect();
    assert!(server.client().expect("a connection").command(&rule).expect("a reply").is_ok());
    let mut config = RedisConfig::single("127.0.0.1", server.port());
    config.username = Some("leasehold".to_owned());
    config.password = Some(Password::Value(Secret::new("hunter2-word")));
    let engine = Engine::builder(RedisTransport::new(config)).build().await.expect("an engine");
    let (permits, latch) = (engine.semaphore("locks:s"), engine.latch("locks:l"));
    let waiting = tokio::spawn(permits.acquire(2));
    permits.release(3).await.expect("granted");
    waiting.await.expect("no panic").expect("granted");
    assert_eq!(permits.add(4).await.expect("granted"), 5);
    assert_eq!(permits.drain().await.expect("granted"), 5);
    assert_eq!(permits.available().await.expect("granted"), 0);
    assert!(latch.try_set(2).await.expect("granted"));
    assert_eq!(latch.count_down().await.expect("granted"), 1);
    assert_eq!(latch.count_down().await.expect("granted"), 0);
    assert!(latch.try_set(2).await.expect("granted") && latch.delete().await.expect("granted"));
    latch.opened().await.expect("granted");
}

#[tokio::test]
async fn out_of_memory_what_gives_back_works_and_what_takes_waits() {
    let fixture = Fixture::new();
    let engine = fixture.builder().unavailable_after(30 * SECOND).build().await.expect("an engine");
    let (permits, latch) = (engine.semaphore("s"), engine.latch("l"));
    fixture.command(&["CONFIG", "SET", "maxmemory", "1"]);
    permits.release(2).await.expect("a semaphore is made");
    permits.release(1).await.expect("permits are added");
    fixture.command(&["CONFIG", "SET", "maxmemory", "0"]);
    latch.try_set(2).await.expect("an answer");
    fixture.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(latch.count_down().await.expect("counted"), 1);
    assert_eq!(latch.count_down().await.expect("counted"), 0);
    let taking = tokio::spawn(permits.acquire(3));
    tokio::time::sleep(SECOND / 5).await;
    assert!(!taking.is_finished());
    fixture.command(&["CONFIG", "SET", "maxmemory", "0"]);
    taking.await.expect("no panic").expect("taken once there is memory");
    assert_eq!(permits.available().await.expect("an answer"), 0);
}

#[tokio::test]
async fn keys_of_other_types_are_refused_and_keep_every_byte() {
    let fixture = Fixture::new();
    let engine = fixture.builder().build().await.expect("an engine");
    let writes: [&[&str]; 4] = [
        &["SET", "text", "v"],
        &["RPUSH", "list", "v"],
        &["HSET", "hash", "f", "v"],
        &["ZADD", "zset", "1", "v"],
    ];
    for write in writes {
        let name = write[1];
        fixture.command(write);
        let before = fixture.command(&["DUMP", name]);
        for refused in [engine.semaphore(name).acquire(1).await, engine.semaphore(name).release(1).await] {
            assert!(matches!(refused, Err(CountError::Refused(_))), "{name}: {refused:?}");
        }
        let refused = engine.latch(name).count_down().await;
        assert!(matches!(refused, Err(CountError::Refused(_))), "{name}: {refused:?}");
        engine.latch(name).count().await.expect_err("no latch");
        assert!(fixture.command(&["DUMP", name]) == before, "{name}");
    }
}

#[tokio::test]
async fn connections_that_break_in_the_middle_count_nothing_twice() {
    let fixture = Fixture::new();
    let engine = fixture.builder().build().await.expect("an engine");
    let (permits, latch) = (engine.semaphore("s"), engine.latch("l"));
    latch.try_set(400).await.expect("an answer");
    let works: Vec<_> = (0..4)
        .map(|_| {
            let (permits, latch) = (permits.clone(), latch.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    permits.release(2).await.expect("an answer");
                    permits.acquire(1).await.expect("a permit");
                    latch.count_down().await.expect("an answer");
                }
            })
        })
        .collect();
    for _ in 0..12 {
        tokio::time::sleep(SECOND / 40).await;
        fixture.proxy.cut_all();
    }
    for work in works {
        work.await.expect("every call is answered");
    }
    until("nothing is on its way", || engine.snapshot().entries == 0).await;
    for name in ["s", "l"] {
        assert_eq!(fixture.command(&["GET", name]).text().as_deref(), Some("200"), "{name}");
    }
}
