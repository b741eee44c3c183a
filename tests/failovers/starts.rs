//! Engines that start while a master is replaced, and while the old one and a sentinel with an old file come back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Engine, Lease};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::{
    changed,
    harness::{
        node::Node,
        polling::found_within,
        proxy::{Direction, Proxy},
        sentinel::{RedisSentinel, SERVICE, master_port_by},
    },
};
use tokio::runtime::Runtime;

use crate::{moment::Moment, queue::alone};

/// The sentinel with the old file is near, and the others are 50 ms away, wherever they are named. The old master comes back empty, and is a
/// master until the sentinels demote it, no sooner than 8 s later.
#[test]
fn s1_engines_that_start_after_a_failover_do_not_work_on_the_old_master() {
    alone(|| {
        let deployment = RedisSentinel::start().expect("sentinels");
        let (stale, old) = (&deployment.sentinels()[0], deployment.master().expect("a master"));
        stale.kill().expect("killed");
        old.kill().expect("killed");
        deployment.wait_for_switch(old.port()).expect("another master");
        let runtime = Runtime::new().expect("a runtime");
        let far = [&deployment.sentinels()[1], &deployment.sentinels()[2]].map(far_away);
        let addresses = [stale.port(), far[0].port(), far[1].port()].map(local);
        let direct = deployment.sentinels()[1..].iter().map(|sentinel| sentinel.port());
        let address_map = direct.zip(&far).map(|(from, to)| (local(from), local(to.port()))).collect();
        let config = changed(sentinels(&addresses), |new| new.address_map = address_map);
        let holder = runtime.block_on(engine(sentinels(&addresses[1..]))).expect("an engine");
        let lease = runtime.block_on(holder.lock("k").acquire()).expect("a lease");
        old.restart().expect("back, and empty");
        stale.restart().expect("back, with its old file");
        let (mut built, mut built_stale) = (0, 0);
        while is_master(&old) && lease.is_held() {
            built_stale += usize::from(master_port_by(stale).is_ok_and(|port| port == old.port()));
            let other = runtime.block_on(engine(config.clone())).expect("an engine");
            let theirs = runtime.block_on(other.lock("k").try_acquire()).expect("an answer");
            assert!(theirs.is_none(), "engine {built} was granted a lock that is held");
            built += 1;
        }
        println!("{built} engines, {built_stale} of them while the first sentinel named the old master");
        assert!(built > 0 && lease.is_held());
    });
}

#[test]
fn s1_engines_that_start_during_a_failover_exclude_each_other_once_it_is_over() {
    alone(|| {
        let deployment = Arc::new(RedisSentinel::start().expect("sentinels"));
        let runtime = Runtime::new().expect("a runtime");
        let (windows, is_over): (Windows, Arc<AtomicBool>) = Default::default();
        let fleets: Vec<_> = (0..3)
            .map(|first| {
                runtime.spawn(start_and_hold(deployment.clone(), first, windows.clone(), is_over.clone()))
            })
            .collect();
        let old = deployment.master().expect("a master");
        found_within(SOON, || (windows.lock().unwrap().len() > 3).then_some(())).expect("grants");
        old.kill().expect("killed");
        deployment.wait_for_switch(old.port()).expect("another master");
        let switched = Moment::now();
        old.restart().expect("back, and empty");
        found_within(SOON * 3, || (!is_master(&old)).then_some(())).expect("demoted");
        is_over.store(true, Ordering::SeqCst);
        for fleet in fleets {
            runtime.block_on(fleet).expect("no panic");
        }
        let windows = windows.lock().unwrap();
        let mut later: Vec<_> = windows.iter().filter(|(begin, _)| *begin > switched).collect();
        later.sort();
        println!("{} grants, {} of them after the switch", windows.len(), later.len());
        assert!(later.len() > 3, "work goes on");
        assert!(later.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two holders: {later:?}");
    });
}

/// When a lock was held, as its holder believed.
type Windows = Arc<Mutex<Vec<(Moment, Moment)>>>;

/// An engine after the other, each of which holds the lock once.
async fn start_and_hold(
    deployment: Arc<RedisSentinel>,
    first: usize,
    windows: Windows,
    is_over: Arc<AtomicBool>,
) {
    let mut addresses: Vec<Address> =
        deployment.sentinel_addresses().iter().map(|address| address.parse().expect("an address")).collect();
    addresses.rotate_left(first);
    while !is_over.load(Ordering::SeqCst) {
        let Ok(engine) = engine(sentinels(&addresses)).await else { continue };
        let Ok(lease) = engine.lock("k").wait(SOON).acquire().await else { continue };
        let begin = Moment::now();
        let end = held_for(&lease, Duration::from_millis(30)).await;
        windows.lock().unwrap().push((begin, end));
        // A release that is lost runs out with its ttl.
        let _ = lease.release().await;
    }
}

/// The last moment at which it was held.
async fn held_for(lease: &Lease, time: Duration) -> Moment {
    let begin = Moment::now();
    let mut last = begin;
    while last.since(begin) < time {
        let now = Moment::now();
        if !lease.is_held() {
            return last;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    last
}

/// The same sentinel, 50 ms away.
fn far_away(sentinel: &Arc<Node>) -> Proxy {
    let proxy = Proxy::start(sentinel.port()).expect("a proxy");
    proxy.latency(Direction::ToClient, Duration::from_millis(50));
    proxy
}

fn local(port: u16) -> Address {
    Address::new("127.0.0.1", port)
}

fn sentinels(addresses: &[Address]) -> RedisConfig {
    RedisConfig::sentinel(addresses.iter().cloned(), SERVICE)
}

async fn engine(config: RedisConfig) -> Result<Engine, leasehold::BuildError> {
    let transport = RedisTransport::new(config);
    let builder = Engine::builder(transport).ttl(TTL).unavailable_after(Duration::from_secs(2));
    builder.build().await
}

fn is_master(server: &Node) -> bool {
    server.info("replication", "role").is_ok_and(|role| role.as_deref() == Some("master"))
}

const TTL: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(10);
