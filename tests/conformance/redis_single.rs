//! The Redis transport on one server, a fresh one for each test.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{clock::Clock, key::LockKey, transport::Transport};
use leasehold_redis::RedisTransport;
use leasehold_tests::{
    conformance::{Ground, OtherDataGround, PeerGround, RestartGround},
    harness::{redis_server::RedisServer, resp::Value},
};

struct RedisSingle {
    server: Mutex<RedisServer>,
    transport: RedisTransport,
}

impl RedisSingle {
    fn command(&self, arguments: &[&str]) -> Value {
        let mut client = self.server.lock().expect("a server").client().expect("a connection");
        client.command(arguments).expect("a reply")
    }
}

impl Ground for RedisSingle {
    const CLOCK: Clock = Clock::Boot;

    async fn fresh() -> Self {
        let server = RedisServer::start().expect("a server");
        let transport = RedisTransport::from_url(&server.url()).expect("a url");
        RedisSingle { server: Mutex::new(server), transport }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }
}

impl PeerGround for RedisSingle {
    async fn put_peer_hold(&self, key: &Arc<LockKey>, owner: &str, count: u64, ttl: Option<Duration>) {
        self.command(&["HSET", key.on_server(), owner, &count.to_string()]);
        if let Some(ttl) = ttl {
            self.command(&["PEXPIRE", key.on_server(), &ttl.as_millis().to_string()]);
        }
    }
}

impl OtherDataGround for RedisSingle {
    async fn put_other_data(&self, key: &Arc<LockKey>) {
        self.command(&["SET", key.on_server(), OTHER_DATA]);
    }

    async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
        let (kept, ttl) = (self.command(&["GET", key.on_server()]), self.command(&["PTTL", key.on_server()]));
        kept.text().as_deref() == Some(OTHER_DATA) && ttl.integer() == Some(-1)
    }
}

impl RestartGround for RedisSingle {
    async fn restart(&self) {
        self.server.lock().expect("a server").restart().expect("restarted");
    }
}

const OTHER_DATA: &str = "no lock";

leasehold_tests::conformance!(RedisSingle: every, notices, peers, other_data, restarts);
