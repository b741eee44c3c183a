//! At most two of six jobs at once. `cargo example semaphore [-- --url redis://127.0.0.1 | -- --config FILE]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{CountError, Engine};
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
    let engine = builder.build().await?;
    let name = format!("downloads-{}", std::process::id()); // so that two runs of this example do not share it
    engine.semaphore(&name).try_set(2).await?;

    let (running, mut jobs) = (Arc::new(AtomicU32::new(0)), JoinSet::new());
    for job in 0..6 {
        jobs.spawn(download(engine.clone(), name.clone(), job, running.clone()));
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }

    let permits = engine.semaphore(&name);
    println!("{} permits are available afterwards", permits.available().await?);
    let three = permits.wait(Duration::from_millis(100)).acquire(3).await;
    println!("three at once: {}", three.is_ok());
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn download(engine: Engine, name: String, job: u32, running: Arc<AtomicU32>) -> Result<(), CountError> {
    let permits = engine.semaphore(name);
    permits.acquire(1).await?;
    let beside = running.fetch_add(1, Ordering::SeqCst);
    println!("job {job} runs beside {beside} other");
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.fetch_sub(1, Ordering::SeqCst);
    permits.release(1).await // a permit that is not given back is missing for ever
}
