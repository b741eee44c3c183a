//! A process that holds a lock until it is ended, and says what it believes: `holder URL NAME TTL_MS`.
//!
//! Prints `held TOKEN`, and whenever it finds that it has stood still, `still MS is_held`: what `is_held` said first
//! after it went on.

use std::{env, time::Duration};

use leasehold::{Engine, Lease};
use leasehold_redis::RedisTransport;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name, ttl_ms] = arguments.as_slice() else { panic!("holder URL NAME TTL_MS") };
    let ttl = Duration::from_millis(ttl_ms.parse().expect("milliseconds"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let lease = runtime.block_on(acquire(url, name, ttl));
    println!("held {}", lease.fencing_token());
    watch(&lease);
}

async fn acquire(url: &str, name: &str, ttl: Duration) -> Lease {
    let transport = RedisTransport::from_url(url).expect("a url");
    let engine = Engine::builder(transport).build().await.expect("an engine");
    engine.lock(name).ttl(ttl).acquire().await.expect("a lease")
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
