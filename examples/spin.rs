//! A spin lock: a caller that waits for it polls, and its release publishes nothing. For locks that are held for
//! milliseconds. `cargo example spin [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::Engine;
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let (engine, count) = (builder.build().await?, Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(engine.clone(), count.clone()));
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    println!("{WORKERS} workers have counted to {}", count.load(Ordering::Relaxed));
    println!("the engine asked the server {} times", engine.snapshot().asks);
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

/// Reads, waits and writes: two holders at once would lose a count.
async fn work(engine: Engine, count: Arc<AtomicU64>) -> Result<(), Trouble> {
    for _ in 0..ROUNDS {
        let lease = engine.spin_lock("counter:7").wait(Duration::from_secs(20)).acquire().await?;
        let before = count.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        count.store(before + 1, Ordering::Relaxed);
        lease.release().await?;
    }
    Ok(())
}

const WORKERS: u64 = 4;
const ROUNDS: u64 = 25;
