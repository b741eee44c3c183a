//! Our semaphores and latches, call by call along what a live Redisson did: the same results, the same keys, the same
//! messages. Only our marker lies beside, with an expiry.

use std::time::Duration;

use leasehold::{Engine, Latch, Semaphore};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::{raw_client::RawClient, redis_server::RedisServer};
use serde_json::Value;

const SEMAPHORE: [&str; 2] = [
    include_str!("../names/traces/semaphore-3.27.2.json"),
    include_str!("../names/traces/semaphore-4.7.0.json"),
];
const LATCH: [&str; 2] =
    [include_str!("../names/traces/latch-3.27.2.json"), include_str!("../names/traces/latch-4.7.0.json")];

struct Bench {
    raw: RawClient,
    ear: RawClient,
    engine: Engine,
    _server: RedisServer,
}

impl Bench {
    async fn new(channel: &str) -> Self {
        let server = RedisServer::builder().start().expect("a server");
        let config = RedisConfig::from_url(&server.url()).expect("a URL");
        let engine = Engine::builder(RedisTransport::new(config)).build().await.expect("an engine");
        let (raw, mut ear) = (server.client().expect("a connection"), server.client().expect("a connection"));
        ear.command(&["SUBSCRIBE", channel]).expect("a reply");
        Self { raw, ear, engine, _server: server }
    }

    /// Every key but our marker, which never is without an expiry.
    fn keys(&mut self) -> Vec<String> {
        let mut keys = self.raw.command(&["KEYS", "*"]).expect("a reply").texts();
        keys.retain(|key| {
            let is_marker = key.starts_with("{L}:leasehold_op:");
            assert!(
                !is_marker || self.raw.command(&["PTTL", key]).expect("a reply").integer() > Some(0),
                "{key}"
            );
            !is_marker
        });
        keys
    }

    fn assert_state(&mut self, step: &Value) {
        let state = step["state"].as_object().expect("a state");
        assert_eq!(self.keys(), state.keys().cloned().collect::<Vec<_>>(), "{step}");
        for (key, content) in state {
            let value = self.raw.command(&["GET", key]).expect("a reply").text();
            assert_eq!(value.as_deref(), content["value"].as_str(), "{step}");
            assert_eq!(self.raw.command(&["PTTL", key]).expect("a reply").integer(), Some(-1), "{step}");
        }
    }

    /// The messages of this step, and no other one: behind them comes one of this test.
    fn assert_published(&mut self, step: &Value, silent: bool) {
        let empty = Vec::new();
        let published = step["published"].as_array().unwrap_or(&empty);
        let channel = published.first().and_then(|sent| sent[1].as_str()).unwrap_or("");
        for sent in published.iter().filter(|_| !silent) {
            let expected = ["message", channel, sent[2].as_str().expect("a payload")];
            assert_eq!(self.ear.read().expect("a message").texts(), expected, "{step}");
        }
    }
}

fn number(call: &Value) -> u32 {
    u32::try_from(call["n"].as_i64().unwrap_or(1)).expect("not negative")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_of_ours_leaves_what_redissons_leaves() {
    for trace in SEMAPHORE {
        let trace: Value = serde_json::from_str(trace).expect("a trace");
        let mut bench = Bench::new("redisson_sc:{L}").await;
        let permits = bench.engine.semaphore("L");
        let mut pending: Option<tokio::task::JoinHandle<()>> = None;
        for step in trace["steps"].as_array().expect("steps") {
            let call = &step["call"];
            if step.get("pending").is_some() {
                let permits = permits.clone();
                let wanted = number(call);
                pending = Some(tokio::spawn(async move { permits.acquire(wanted).await.expect("permits") }));
                tokio::time::sleep(Duration::from_millis(100)).await;
            } else {
                let result = semaphore_call(&mut bench, &permits, call).await;
                assert!(step["result"].is_null() || step["result"] == result, "{step}: {result}");
            }
            if step.get("completed").is_some() {
                pending.take().expect("a call that waits").await.expect("no panic");
            }
            bench.assert_state(step);
            // Redisson tells a removal of permits, too. Nobody can take what was removed.
            bench.assert_published(step, call["n"].as_i64().is_some_and(|number| number < 0));
        }
    }
}

async fn semaphore_call(bench: &mut Bench, permits: &Semaphore, call: &Value) -> Value {
    match call["op"].as_str() {
        Some("tryAcquire") => {
            let wait = Duration::from_millis(call["waitMs"].as_u64().unwrap_or(0));
            permits.clone().wait(wait).acquire(number(call)).await.is_ok().into()
        }
        Some("trySetPermits") => permits.try_set(number(call)).await.expect("an answer").into(),
        Some("acquire") => permits.acquire(number(call)).await.map(|()| Value::Null).expect("permits"),
        Some("release") => permits.release(number(call)).await.map(|()| Value::Null).expect("an answer"),
        Some("availablePermits") => permits.available().await.expect("an answer").into(),
        Some("drainPermits") => permits.drain().await.expect("an answer").into(),
        Some("addPermits") => {
            let more = i32::try_from(call["n"].as_i64().expect("a number")).expect("small");
            permits.add(more).await.map(|_| Value::Null).expect("an answer")
        }
        Some("releaseIfExists") => {
            let exists = bench.raw.command(&["EXISTS", "L"]).expect("a reply").integer() == Some(1);
            if exists {
                permits.release(number(call)).await.expect("an answer");
            }
            exists.into()
        }
        Some("delete") => (bench.raw.command(&["DEL", "L"]).expect("a reply").integer() == Some(1)).into(),
        None => {
            // A foreign client adds a permit and publishes.
            bench.raw.command(&["INCR", "L"]).expect("a reply");
            bench.raw.command(&["PUBLISH", "redisson_sc:{L}", "1"]).expect("a reply");
            Value::Null
        }
        Some(other) => panic!("not in the trace so far: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_of_ours_leaves_what_redissons_leaves() {
    for trace in LATCH {
        let trace: Value = serde_json::from_str(trace).expect("a trace");
        let mut bench = Bench::new("redisson_countdownlatch__channel__{L}").await;
        let latch = bench.engine.latch("L");
        let mut pending: Option<tokio::task::JoinHandle<()>> = None;
        for step in trace["steps"].as_array().expect("steps") {
            let call = &step["call"];
            if step.get("pending").is_some() {
                let latch = latch.clone();
                pending = Some(tokio::spawn(async move { latch.opened().await.expect("open") }));
                tokio::time::sleep(Duration::from_millis(100)).await;
            } else {
                let result = latch_call(&mut bench, &latch, call).await;
                assert!(step["result"].is_null() || step["result"] == result, "{step}: {result}");
            }
            if step.get("completed").is_some() {
                pending.take().expect("a call that waits").await.expect("no panic");
            }
            bench.assert_state(step);
            bench.assert_published(step, false);
        }
    }
}

async fn latch_call(bench: &mut Bench, latch: &Latch, call: &Value) -> Value {
    match call["op"].as_str() {
        Some("getCount") => latch.count().await.expect("an answer").into(),
        Some("await") => {
            let wait = Duration::from_millis(call["waitMs"].as_u64().expect("a wait"));
            latch.clone().wait(wait).opened().await.is_ok().into()
        }
        Some("trySetCount") => latch.try_set(number(call)).await.expect("an answer").into(),
        Some("countDown") => latch.count_down().await.map(|_| Value::Null).expect("an answer"),
        Some("delete") => latch.delete().await.expect("an answer").into(),
        None => {
            // A foreign client finishes the latch.
            bench.raw.command(&["DEL", "L"]).expect("a reply");
            bench.raw.command(&["PUBLISH", "redisson_countdownlatch__channel__{L}", "0"]).expect("a reply");
            Value::Null
        }
        Some(other) => panic!("not in the trace so far: {other}"),
    }
}
