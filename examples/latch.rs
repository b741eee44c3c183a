//! Begin when three workers are ready. `cargo example latch [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::time::Duration;

use leasehold::{CountError, Engine};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::task::JoinSet;

const WORKERS: u32 = 3;

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;
    let name = format!("workers-ready-{}", std::process::id());
    let ready = engine.latch(&name);
    println!("it is set: {}", ready.try_set(WORKERS).await?);

    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        workers.spawn(prepare(engine.clone(), name.clone(), worker));
    }
    let too_early = ready.clone().wait(Duration::ZERO).opened().await;
    println!("open at once: {}", too_early.is_ok());
    ready.opened().await?;
    println!("every worker is ready");

    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn prepare(engine: Engine, name: String, worker: u32) -> Result<(), CountError> {
    tokio::time::sleep(Duration::from_millis(100 + 20 * u64::from(worker))).await;
    let left = engine.latch(name).count_down().await?;
    println!("worker {worker} is ready, {left} to come");
    Ok(())
}
