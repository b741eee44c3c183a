//! A process that holds something until it is ended, and says what it believes: `holder URL NAME TTL_MS [KIND]`.
//!
//! KIND is `lock`, `read` or `write`: prints `held TOKEN`, and whenever it finds that it has stood still, `still MS is_held`:
//! what `is_held` said first after it went on. `semaphore`: takes two permits, prints `held 2` and waits for two more. `latch`:
//! counts down once, prints `held LEFT` and waits until the latch is open.

use std::{env, future::pending, time::Duration};

use leasehold::{Engine, Lease, Lock};
use leasehold_redis::RedisTransport;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (url, name, ttl_ms, kind) = match arguments.as_slice() {
        [url, name, ttl_ms] => (url, name, ttl_ms, "lock"),
        [url, name, ttl_ms, kind] => (url, name, ttl_ms, kind.as_str()),
        _ => panic!("holder URL NAME TTL_MS [KIND]"),
    };
    let ttl = Duration::from_millis(ttl_ms.parse().expect("milliseconds"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let engine = runtime.block_on(engine(url));
    match kind {
        "semaphore" => runtime.block_on(take_permits(&engine, name)),
        "latch" => runtime.block_on(count_down(&engine, name)),
        kind => {
            let lease = runtime.block_on(lock(&engine, name, kind).ttl(ttl).acquire()).expect("a lease");
            println!("held {}", lease.fencing_token());
            watch(&lease)
        }
    }
}

async fn engine(url: &str) -> Engine {
    let transport = RedisTransport::from_url(url).expect("a url");
    Engine::builder(transport).build().await.expect("an engine")
}

fn lock(engine: &Engine, name: &str, kind: &str) -> Lock {
    match kind {
        "lock" => engine.lock(name),
        "read" => engine.rw_lock(name).read(),
        "write" => engine.rw_lock(name).write(),
        other => panic!("no such kind: {other}"),
    }
}

async fn take_permits(engine: &Engine, name: &str) {
    let permits = engine.semaphore(name);
    permits.acquire(2).await.expect("permits");
    println!("held 2");
    permits.acquire(2).await.expect("permits");
    println!("held 4");
    pending().await
}

async fn count_down(engine: &Engine, name: &str) {
    let latch = engine.latch(name);
    println!("held {}", latch.count_down().await.expect("counted"));
    latch.opened().await.expect("open");
    println!("open");
    pending().await
}

fn watch(lease: &Lease) -> ! {
    let mut before = now();
    loop {
        // The clock is read first: if it has jumped, the process stood still before `is_held` was called.
        let now = now();
        let (still, is_held) = (now - before, lease.is_held());
        if still > STILL {
            println!("still {} {is_held}", still.as_millis());
        }
        before = now;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn now() -> Duration {
    Duration::from_nanos(leasehold_tests::harness::recorder::boot_ns())
}

/// Longer than a busy machine makes anybody wait.
const STILL: Duration = Duration::from_secs(1);
