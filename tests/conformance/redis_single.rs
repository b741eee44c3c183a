//! The Redis transport on one server, a fresh one for each test.

use std::{marker::PhantomData, sync::Mutex};

use leasehold::key::LockKey;
use leasehold_conformance::{FencedCounter, FencedHybrid, OfKind, Spin, conformance};
use leasehold_redis::RedisConfig;
use leasehold_tests::harness::{redis_server::RedisServer, resp::Value};

use crate::redis::{Debian, Deployment, Redis, Redis62, Redis82, Restarted, Valkey91, Version};

struct Single<V> {
    server: Mutex<RedisServer>,
    _version: PhantomData<V>,
}

impl<V: Version> Deployment for Single<V> {
    fn fresh() -> Self {
        let server = RedisServer::builder().version(V::VERSION).start().expect("a server");
        Self { server: Mutex::new(server), _version: PhantomData }
    }

    fn config(&self) -> RedisConfig {
        RedisConfig::from_url(&self.server.lock().expect("a server").url()).expect("a url")
    }

    fn command(&self, _: &LockKey, arguments: &[&str]) -> Value {
        let mut client = self.server.lock().expect("a server").client().expect("a connection");
        client.command(arguments).expect("a reply")
    }
}

impl<V: Version> Restarted for Single<V> {
    fn restart(&self) {
        self.server.lock().expect("a server").restart().expect("restarted");
    }
}

mod debian {
    use super::*;
    conformance!(Redis<Single<Debian>>: every, notices, peers, other_data, restarts, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod redis_6_2 {
    use super::*;
    conformance!(Redis<Single<Redis62>>: every, notices, peers, other_data, restarts, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod redis_8_2 {
    use super::*;
    conformance!(Redis<Single<Redis82>>: every, notices, peers, other_data, restarts, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod valkey_9_1 {
    use super::*;
    conformance!(Redis<Single<Valkey91>>: every, notices, peers, other_data, restarts, fair, read_write, read_write_notices, permits, permit_notices, read_write_other_data, permit_other_data, every_counter, semaphore, latch, no_counters);
}

mod debian_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Single<Debian>>, FencedHybrid>: every, notices, peers, other_data, fenced);
}

mod debian_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Single<Debian>>, FencedCounter>: fenced);
}

mod redis_6_2_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Single<Redis62>>, FencedHybrid>: peers, fenced);
}

mod redis_6_2_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Single<Redis62>>, FencedCounter>: fenced);
}

mod valkey_9_1_fenced_hybrid {
    use super::*;
    conformance!(OfKind<Redis<Single<Valkey91>>, FencedHybrid>: peers, fenced);
}

mod valkey_9_1_fenced_counter {
    use super::*;
    conformance!(OfKind<Redis<Single<Valkey91>>, FencedCounter>: fenced);
}

mod debian_spin {
    use super::*;
    conformance!(OfKind<Redis<Single<Debian>>, Spin>: every, spin);
}
