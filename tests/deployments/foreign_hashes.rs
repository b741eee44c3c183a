//! Hashes under a lock's name that are no locks: they stay as they are, and none is read whole.

use leasehold::{
    key::LockKey,
    transport::{Effect, ErrorKind, TransportError},
};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{
    raw_client::RawClient, redis_server::RedisServer, server_version::ServerVersion,
};

use crate::lanes::Lanes;

/// A server of a version, a lane to it, and the key of the test.
struct Fixture {
    _server: RedisServer,
    client: RawClient,
    lanes: Lanes,
}

impl Fixture {
    async fn start(version: ServerVersion) -> Self {
        println!("{version:?}");
        let server = RedisServer::builder().version(version).start().expect("a server");
        let lanes = Lanes::open(RedisConfig::single("127.0.0.1", server.port())).await;
        Self { client: server.client().expect("a connection"), _server: server, lanes }
    }

    fn has_hash(&mut self, fields: &[&str]) {
        self.client.command(&[&["HSET", "data"], fields].concat()).expect("a reply");
    }

    fn fields(&mut self) -> Option<i64> {
        self.client.command(&["HLEN", "data"]).expect("a reply").integer()
    }

    async fn force(&self) -> Result<bool, TransportError> {
        self.lanes.calls.force_release(&LockKey::new("", "data").expect("a name")).await
    }

    async fn inspected(&self) -> Result<usize, TransportError> {
        let seen = self.lanes.calls.inspect(&LockKey::new("", "data").expect("a name")).await;
        seen.map(|seen| seen.holds.len())
    }
}

fn is_no_lock(error: &TransportError, word: &str) {
    assert_eq!((error.kind, error.effect), (ErrorKind::WrongType, Effect::None), "{error:?}");
    assert!(error.detail.contains(word) && error.detail.contains("use another name"), "{error}");
}

const OWNER: &str = "5f1c7a3e-6a4b-4a50-9f29-0d6a3c1e9b77:1";
const WRITER: &str = "5f1c7a3e-6a4b-4a50-9f29-0d6a3c1e9b77:1:write";

#[tokio::test]
async fn s10_a_hash_that_is_no_lock_is_not_ended_by_force() {
    for version in ServerVersion::ALL {
        let mut fixture = Fixture::start(version).await;
        for fields in [&["name", "value"][..], &["session:17", "alice"], &[OWNER, "1", "note", "1"]] {
            fixture.has_hash(fields);
            is_no_lock(&fixture.force().await.expect_err("refused"), "no lock");
            assert_eq!(fixture.fields(), i64::try_from(fields.len() / 2).ok());
            fixture.client.command(&["DEL", "data"]).expect("a reply");
        }
    }
}

#[tokio::test]
async fn every_kind_of_hold_is_ended_by_force() {
    for version in ServerVersion::ALL {
        let mut fixture = Fixture::start(version).await;
        for fields in
            [&[OWNER, "2"][..], &["mode", "read", OWNER, "1", "b:7", "3"], &["mode", "write", WRITER, "1"]]
        {
            fixture.has_hash(fields);
            assert!(fixture.force().await.expect("an answer"), "{fields:?}");
            assert_eq!(fixture.fields(), Some(0));
        }
    }
}

#[tokio::test]
async fn a_hash_of_more_fields_than_a_lock_has_is_not_read() {
    for version in ServerVersion::ALL {
        let mut fixture = Fixture::start(version).await;
        let fill = "for n = 1, 10000 do redis.call('hset', KEYS[1], 'a:' .. n, 1) end";
        fixture.client.command(&["EVAL", fill, "1", "data"]).expect("a reply");
        assert_eq!(fixture.inspected().await.expect("an answer"), 10_000);
        fixture.has_hash(&["a:0", "1"]);
        is_no_lock(&fixture.inspected().await.expect_err("refused"), "10001 fields");
        is_no_lock(&fixture.force().await.expect_err("refused"), "no lock");
        assert_eq!(fixture.fields(), Some(10_001));
    }
}
