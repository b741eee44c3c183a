//! Multi locks and quorums beside Redisson's `getMultiLock` and `getRedLock`: each excludes the other, wakes the other,
//! and leaves nothing of it locked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{Engine, MultiLock, Quorum};
use leasehold_redis::RedisTransport;
use leasehold_tests::harness::{deployment::Topology, polling::holds_within, redis_server::RedisServer};

use crate::{
    fixture::{Fixture, SOON},
    java::Java,
};

const TTL: Duration = Duration::from_secs(30);

leasehold_tests::on_every_topology!(
    l2_java_unlocks_its_multi_lock_and_ours_is_granted,
    l2_we_release_our_multi_lock_and_javas_is_granted,
    f22_javas_multi_lock_that_fails_behind_ours_leaves_our_others_alone,
);

/// Two names in the slot of the fixture's lock, and the multi lock of both, in the order that Java is not told.
fn names(fixture: &Fixture) -> [String; 2] {
    ["a", "b"].map(|member| format!("{member}{{{}}}", fixture.name))
}

fn multi(engine: &Engine, names: &[String]) -> MultiLock {
    MultiLock::of(names.iter().map(|name| engine.lock(name)))
}

fn keys(fixture: &mut Fixture, names: &[String]) -> usize {
    let exists =
        |name: &&String| fixture.raw.command(&["EXISTS", name]).expect("a reply").integer() == Some(1);
    names.iter().filter(exists).count()
}

async fn l2_java_unlocks_its_multi_lock_and_ours_is_granted(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let [a, b] = names(&fixture);
    // Java takes them in the opposite order of ours.
    fixture.java.call(&format!("lock t {b}+{a}")).expect("free locks");
    assert_eq!(keys(&mut fixture, &[a.clone(), b.clone()]), 2);
    let lock = multi(&fixture.engine, &[b.clone(), a.clone()]);
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    fixture.java.call(&format!("unlock t {b}+{a}")).expect("they are Java's");
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(before.elapsed() < TTL / 3, "{:?}", before.elapsed());
    assert_eq!(fixture.java.call(&format!("trylock u {a} 0")).as_deref(), Ok("false"), "we exclude Java");
    lease.release().await.expect("ours to the end");
    assert_eq!(keys(&mut fixture, &[a, b]), 0);
}

async fn l2_we_release_our_multi_lock_and_javas_is_granted(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let [a, b] = names(&fixture);
    let lease = multi(&fixture.engine, &[a.clone(), b.clone()]).acquire().await.expect("free locks");
    let waiting = fixture.java.give(&format!("lock t {b}+{a}"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!fixture.java.has_answered(waiting));
    lease.release().await.expect("ours to the end");
    assert_eq!(fixture.java.answer(waiting, SOON).as_deref(), Ok(""));
    assert_eq!(keys(&mut fixture, &[a.clone(), b.clone()]), 2);
    fixture.java.call(&format!("unlock t {b}+{a}")).expect("they are Java's");
    assert_eq!(keys(&mut fixture, &[a, b]), 0);
}

async fn f22_javas_multi_lock_that_fails_behind_ours_leaves_our_others_alone(topology: Topology) {
    let mut fixture = Fixture::new(topology, TTL).await;
    let [a, b] = names(&fixture);
    let held = fixture.engine.lock(&b).acquire().await.expect("a free lock");
    assert_eq!(fixture.java.call(&format!("trylock t {a}+{b} 200")).as_deref(), Ok("false"));
    assert_eq!(keys(&mut fixture, &[a.clone(), b.clone()]), 1, "Java gave a back, and b is ours");
    let both = multi(&fixture.engine, &[a.clone(), b.clone()]).wait(Duration::from_millis(200));
    assert!(both.acquire().await.is_err(), "b is held by another caller of ours");
    assert!(holds_within(SOON, || keys(&mut fixture, std::slice::from_ref(&a)) == 0), "a is free");
    assert_eq!(fixture.java.call(&format!("trylock t {a} 0")).as_deref(), Ok("true"), "and Java gets it");
    fixture.java.call(&format!("unlock t {a}")).expect("it is Java's");
    held.release().await.expect("ours to the end");
}

/// Three servers, a JVM with a client for each, and a quorum of ours.
struct Three {
    java: Java,
    quorum: Quorum,
    engines: Vec<Engine>,
    servers: Vec<RedisServer>,
}

impl Three {
    async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let servers: Vec<_> = (0..3).map(|_| RedisServer::start().expect("a server")).collect();
        let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let tag = format!("red{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let java = Java::start_over(&urls, TTL, &tag);
        let mut engines = Vec::new();
        for url in &urls {
            let builder = Engine::builder(RedisTransport::from_url(url).expect("a url"));
            engines.push(builder.restart_grace(Duration::ZERO).build().await.expect("an engine"));
        }
        Self { java, quorum: Quorum::over(engines.clone()).expect("a quorum"), engines, servers }
    }

    fn held(&self) -> usize {
        let exists = |server: &&RedisServer| {
            let mut raw = server.client().expect("a connection");
            raw.command(&["EXISTS", "k"]).expect("a reply").integer() == Some(1)
        };
        self.servers.iter().filter(exists).count()
    }
}

#[tokio::test]
async fn javas_red_lock_excludes_our_quorum_and_its_unlock_wakes_us() {
    let three = Three::start().await;
    three.java.call("lock t red:k").expect("free locks");
    assert_eq!(three.held(), 3);
    let lock = three.quorum.lock("k");
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "Java excludes us");
    let waiting = tokio::spawn(lock.acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    three.java.call("unlock t red:k").expect("it is Java's");
    let lease = waiting.await.expect("no panic").expect("granted");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert_eq!(three.java.call("trylock u red:k 0").as_deref(), Ok("false"), "we exclude Java");
    lease.release().await.expect("ours to the end");
    assert!(holds_within(SOON, || three.held() == 0));
    assert_eq!(three.java.call("trylock u red:k 1000").as_deref(), Ok("true"));
    three.java.call("unlock u red:k").expect("it is Java's");
}

#[tokio::test]
async fn a_red_lock_of_java_on_two_of_three_servers_is_a_majority_to_us_and_the_reverse() {
    let mut three = Three::start().await;
    // One server holds a lock of ours: Java's majority is the other two.
    let held = three.engines[0].lock("k").acquire().await.expect("a free lock");
    three.java.call("lock t red:k").expect("two of three");
    held.release().await.expect("ours to the end");
    assert!(
        three.quorum.lock("k").try_acquire().await.expect("an answer").is_none(),
        "one of three is no majority"
    );
    three.java.call("unlock t red:k").expect("it is Java's");
    assert!(holds_within(SOON, || three.held() == 0));
    // A server is dead: ours is the other two.
    three.servers[2].kill().expect("killed");
    let lease = three.quorum.lock("k").acquire().await.expect("two of three");
    let refused = three.java.call("trylock t red:k 100");
    assert_ne!(refused.as_deref(), Ok("true"), "we exclude Java");
    lease.release().await.expect("ours to the end");
}

#[tokio::test]
async fn s1_threads_of_java_and_tasks_of_ours_add_to_a_number_under_a_quorum_and_no_update_is_lost() {
    let three = Arc::new(Three::start().await);
    let counted = three.java.give("increment t red:k number 60 100");
    let mut ours = Vec::new();
    for _task in 0..2 {
        let three = three.clone();
        ours.push(tokio::spawn(async move {
            for _ in 0..60 {
                let lease = three.quorum.lock("k").acquire().await.expect("granted");
                let mut raw = three.servers[0].client().expect("a connection");
                let before = raw.command(&["GET", "number"]).expect("a reply").text();
                let before: u64 = before.map_or(0, |text| text.parse().expect("a number"));
                tokio::time::sleep(Duration::from_micros(200)).await;
                raw.command(&["SET", "number", &(before + 1).to_string()]).expect("a reply");
                lease.release().await.expect("ours to the end");
            }
        }));
    }
    for task in ours {
        task.await.expect("no panic");
    }
    let answer = three.java.answer(counted, 3 * SOON);
    assert!(answer.as_deref().is_ok_and(|answer| answer.starts_with("60 ")), "{answer:?}");
    assert_eq!(three.java.call("get t number").as_deref(), Ok("180"));
}
